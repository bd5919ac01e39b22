/** Background processes as the model sees them: started by bash; listed, read and stopped by `process`; their end reported once. */
import { atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test, type TestContext } from 'node:test'
import { createRunnerClient, type RunnerClient } from '@breakfall/runner/client'
import { testRunner } from '../support/runner.ts'
import { rig } from '../support/setup.ts'

const SERVER = 'echo up; while [ ! -e stop ]; do sleep 0.02; done; echo down; exit 3'
const background = { name: 'web', ready: { text: 'up' } }
const bash = (command: string, more: object = {}) => ({ tool: 'bash', arguments: { command, ...more } })
const process = (action: string, id?: string) => ({ tool: 'process', arguments: { action, ...(id && { id }) } })

/** The calls of each prompt. */
const TURNS: Readonly<Record<string, readonly { tool: string; arguments: Record<string, unknown> }[]>> = {
  start: [bash(SERVER, { background }), process('list'), process('output', 'web'), process('output')],
  look: [bash('echo looked'), bash('echo again'), process('list'), process('output', 'web')],
  second: [
    bash('rm stop; sleep 300', { background: { name: 'second' } }),
    process('stop', 'second'),
    process('stop', 'nobody'),
    bash('exit 4', { background: { ready: { port: 9 } } }),
    bash('sleep 300 & echo left'),
  ],
  reach: [bash('getent hosts evil.example || getent hosts evil.example; echo tried'), bash('echo next')],
}

function client(t: TestContext, runner: { url: string; tokenFile: string }): RunnerClient {
  const token = readFileSync(runner.tokenFile, 'utf8').trim()
  const made = createRunnerClient({ url: runner.url, token })
  atEnd(t, () => made.close())
  return made
}

test('a process outlives its call, its turn and the daemon; the model lists, reads and stops it, hears of its end once, and of refused names', async (t) => {
  const runner = await testRunner(t)
  const { url = '', tokenFile = '' } = runner.config
  const first = await rig(
    t,
    ({ messages }) => {
      const from = messages.findLastIndex(({ role }) => role === 'user')
      const isAnswered = messages.slice(from).some(({ role }) => role === 'assistant')
      return isAnswered ? { text: 'done' } : { calls: TURNS[String(messages[from]?.content)] ?? [] }
    },
    { runner: runner.config },
  )
  const { id } = await first.api.session()
  const results = async (api: typeof first.api, prompt: string, session = id): Promise<string[]> => {
    const turnId = await api.prompt(session, prompt)
    const events = (await api.ended(session, turnId)).filter((event) => event.turnId === turnId)
    return events.flatMap((event) => (event.type === 'tool-result' ? [`${event.outcome}: ${event.text}`] : []))
  }
  const [started = '', list = '', output = '', noId = ''] = await results(first.api, 'start')
  const execId = /Its id is (\S+)\.\]$/.exec(started)?.[1] ?? ''
  assert.match(started, /^ok: up\n\[process web is running in the background, ready after /)
  assert.equal(list, `ok: web (${execId}): running`)
  assert.equal(output, 'ok: up\n[process web: running]')
  assert.match(noId, /^failed: output needs the name or id of a process/)

  const next = await first.restart()
  const at = client(t, { url, tokenFile })
  await at.writeFile(id, 'stop', Buffer.from(''))
  assert.equal((await at.waitExec(id, execId)).exit?.code, 3)
  assert.deepEqual(await results(next.api, 'look'), [
    'ok: looked\n[process web ended: exit code 3]',
    'ok: again',
    'ok: No background process is running.',
    'ok: up\ndown\n[process web: ended: exit code 3]',
  ])
  const [second = '', stopped, nobody = '', failed, left = ''] = await results(next.api, 'second')
  assert.match(second, /^ok: \[process second is running in the background, ready after /)
  assert.equal(stopped, 'ok: [process second ended: killed by request]')
  assert.match(nobody, /^failed: There is no process nobody/)
  assert.equal(failed, 'failed: [exit code 4]')
  assert.match(left, /^ok: left\n\[what this command left running in the background was ended with it; start it with/)

  // A name that is not on the list of a box: the result has the policy and the name once, and the next one does not repeat it.
  const listed = await next.api.session({ box: { network: { allow: ['packages.example.org'] } } })
  const [refused = '', later] = await results(next.api, 'reach', listed.id)
  assert.match(
    refused,
    /^ok: tried\n\[this box may reach only packages\.example\.org; evil\.example was refused \(2×\); this is policy and not a fault: [^\n]+\]$/,
  )
  assert.equal(later, 'ok: next')
})
