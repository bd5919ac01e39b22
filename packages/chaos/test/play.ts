/** Plays a script to its end without a network, with real `sh` and files in a scratch folder, or with the test's tools. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { messageOf } from '@breakfall/faults/internal'
import type { Message } from '../src/rehearsal/conversation.ts'
import { type Answer, answerTo, scriptFor } from '../src/rehearsal/script.ts'

export type Tools = (name: string, args: Readonly<Record<string, unknown>>) => string

export function play(
  model: string,
  prompt: string,
  tools: Tools,
  answersMax = 200,
): { answers: Answer[]; conversation: Message[] } {
  const script = scriptFor(model, prompt)
  if (script === undefined) throw new Error(`no script for ${model}`)
  const conversation: Message[] = [{ role: 'user', text: prompt, calls: [], callId: null }]
  const answers: Answer[] = []
  while (answers.length < answersMax) {
    const answer = answerTo(script, conversation, null)
    answers.push(answer)
    conversation.push({ role: 'assistant', text: answer.text, calls: answer.calls, callId: null })
    if (answer.calls.length === 0) return { answers, conversation }
    for (const call of answer.calls) {
      const text = tools(call.name, call.arguments)
      conversation.push({ role: 'tool', text, calls: [], callId: call.id })
    }
  }
  throw new Error(`no end after ${answersMax} answers`)
}

/** The daemon's four tools, on a scratch folder that is removed after the test. */
export function realTools(t: TestContext, files: Readonly<Record<string, string>>): { tools: Tools; folder: string } {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-chaos-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  for (const [path, content] of Object.entries(files)) writeFileSync(join(folder, path), content)
  const tools: Tools = (name, args) => {
    const path = join(folder, String(args['path']))
    try {
      switch (name) {
        case 'bash': {
          const run = spawnSync('sh', ['-c', String(args['command'])], { cwd: folder, encoding: 'utf8' })
          return `${run.stdout}${run.stderr}${run.status === 0 ? '' : `\nexit code ${run.status}`}`
        }
        case 'read':
          return readFileSync(path, 'utf8')
        case 'write':
          writeFileSync(path, String(args['content']))
          return `wrote ${String(args['path'])}`
        case 'edit': {
          const text = readFileSync(path, 'utf8')
          if (text.split(String(args['old'])).length !== 2) return 'edit failed: the old text is not there exactly once'
          writeFileSync(
            path,
            text.replace(String(args['old']), () => String(args['new'])),
          )
          return `edited ${String(args['path'])}`
        }
        default:
          return `there is no tool ${name}`
      }
    } catch (error) {
      return `failed: ${messageOf(error)}`
    }
  }
  return { tools, folder }
}
