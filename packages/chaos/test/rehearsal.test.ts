/** The rehearsal model's scripts, without a network. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { fromAnthropic, fromOpenAi, type Message, turnOf } from '../src/rehearsal/conversation.ts'
import { REHEARSAL_PROJECT, REHEARSAL_PROMPT } from '../src/rehearsal/project.ts'
import { answerTo, scriptFor } from '../src/rehearsal/script.ts'
import { cksum, createStepsTool, stepCommand } from '../src/rehearsal/steps.ts'
import { play, realTools, type Tools } from './play.ts'

const toolsUsed = (answers: readonly { calls: readonly { name: string }[] }[]): string[] =>
  answers.map((answer) => answer.calls.map((call) => call.name).join('+'))

test('fix finds the failing check, fixes the code and sees the checks pass, with real files and a real shell', (t) => {
  const { tools, folder } = realTools(t, REHEARSAL_PROJECT)
  const { answers, conversation } = play('rehearsal/fix', REHEARSAL_PROMPT, tools)
  assert.deepEqual(toolsUsed(answers), ['bash', 'read+read', 'bash', 'edit', 'bash', ''])
  const results = conversation.filter((message) => message.role === 'tool').map((message) => message.text)
  assert.match(results[3] ?? '', /2 of 4 checks failed/)
  assert.match(results[5] ?? '', /all 4 checks passed/)
  assert.match(answers.at(-1)?.text ?? '', /^Fixed: all 4 checks passed/)
  assert.match(readFileSync(join(folder, 'slug.sh'), 'utf8'), /tr -s/)
  assert.ok(answers.some((answer) => answer.reasoning !== '') && answers.some((answer) => answer.reasoning === ''))
})

test('fix changes nothing if the checks already pass', (t) => {
  const { tools } = realTools(t, REHEARSAL_PROJECT)
  play('rehearsal/fix', REHEARSAL_PROMPT, tools)
  const { answers } = play('rehearsal/fix', REHEARSAL_PROMPT, tools)
  assert.deepEqual(toolsUsed(answers), ['bash', 'read+read', 'bash', ''])
  assert.match(answers.at(-1)?.text ?? '', /nothing to fix/)
})

test('fix leaves other folders alone', (t) => {
  const { tools } = realTools(t, { 'main.c': 'int main;' })
  const { answers } = play('rehearsal/fix', REHEARSAL_PROMPT, tools)
  assert.deepEqual(toolsUsed(answers), ['bash', ''])
  assert.match(answers.at(-1)?.text ?? '', /changed nothing/)
})

test('after an edit with an unknown outcome, fix reads the file first', (t) => {
  const { tools } = realTools(t, REHEARSAL_PROJECT)
  for (const isDone of [false, true]) {
    let edits = 0
    const unsure: Tools = (name, args) => {
      if (name !== 'edit' || edits > 0) return tools(name, args)
      edits += 1
      if (isDone) tools(name, args)
      return 'The outcome is unknown: the runner is gone. Check the workspace before you repeat it.'
    }
    const { answers } = play('rehearsal/fix', REHEARSAL_PROMPT, unsure)
    const after = toolsUsed(answers).slice(4)
    assert.deepEqual(after, isDone ? ['read', 'bash', ''] : ['read', 'edit', 'bash', ''])
    assert.match(answers.at(-1)?.text ?? '', /^Fixed: all 4 checks passed/)
    tools('write', { path: 'slug.sh', content: REHEARSAL_PROJECT['slug.sh'] })
  }
})

test('fix rewrites the file if edits keep failing', (t) => {
  const { tools } = realTools(t, REHEARSAL_PROJECT)
  const { answers } = play('rehearsal/fix', REHEARSAL_PROMPT, (name, args) =>
    name === 'edit' ? 'edit failed: permission denied' : tools(name, args),
  )
  assert.deepEqual(toolsUsed(answers).slice(3), ['edit', 'read', 'edit', 'read', 'write', 'bash', ''])
})

test('fix gives up if its files are gone', (t) => {
  const { tools } = realTools(t, REHEARSAL_PROJECT)
  let isLost = false
  const { answers } = play('rehearsal/fix', REHEARSAL_PROMPT, (name, args) => {
    isLost ||= name === 'edit'
    return isLost ? 'This was not run: the sandbox of this session was lost.' : tools(name, args)
  })
  assert.match(answers.at(-1)?.text ?? '', /^I give up: I can no longer read slug\.sh/)
})

test('fix ends, no matter what the tools return', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('', 'failed', 'slug.sh test.sh', 'check printf', 'FAILED', 'unknown', 'ok'), {
        minLength: 1,
      }),
      (results) => {
        let n = 0
        play('rehearsal/fix', REHEARSAL_PROMPT, () => results[(n += 1) % results.length] ?? '', 60)
      },
    ),
    { numRuns: 200 },
  )
})

test('steps proves with real sh that every tool ran once and in order', (t) => {
  const { tools, folder } = realTools(t, {})
  const { answers } = play('rehearsal/steps-12', 'go', tools)
  assert.equal(answers.length, 13)
  assert.equal(readFileSync(join(folder, 'steps.log'), 'utf8').split('\n').length - 1, 12)
  assert.match(answers.at(-1)?.text ?? '', /^All 12 steps ran, each once and in order\. Checksum: \d+ \d+\.$/)
})

test('a second turn of a conversation has its own file, so its steps are right, too', (t) => {
  const { tools, folder } = realTools(t, {})
  const { conversation } = play('rehearsal/steps-3', 'go', tools)
  const script = scriptFor('rehearsal/steps-3', 'go')
  assert.ok(script)
  const messages: Message[] = [...conversation, { role: 'user', text: 'again', calls: [], callId: null }]
  for (;;) {
    const { text, calls } = answerTo(script, messages, null)
    messages.push({ role: 'assistant', text, calls, callId: null })
    const [call] = calls
    if (call === undefined) break
    messages.push({ role: 'tool', text: tools(call.name, call.arguments), calls: [], callId: call.id })
  }
  assert.match(messages.at(-1)?.text ?? '', /^All 3 steps ran, each once and in order/)
  assert.equal(readFileSync(join(folder, 'steps-2.log'), 'utf8').split('\n').length - 1, 3)
})

test('the steps tool does exactly what sh does', (t) => {
  const { tools } = realTools(t, {})
  const tool = createStepsTool()
  for (let step = 1; step <= 30; step += 1) {
    const command = stepCommand(step, 30)
    assert.equal(tool.bash(command), tools('bash', { command }))
  }
})

test('cksum equals POSIX cksum', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
      assert.equal(`${cksum(bytes)}\n`, spawnSync('cksum', { input: bytes, encoding: 'utf8' }).stdout)
    }),
    { numRuns: 15 },
  )
})

test('a step that ran twice, or not at all, is detected', () => {
  for (const times of [0, 2]) {
    const tool = createStepsTool()
    const { answers } = play('rehearsal/steps-9', 'go', (_name, { command }) => {
      const runs = String(command).includes("'line 4 of") ? times : 1
      return Array.from({ length: runs }, () => tool.bash(String(command))).at(-1) ?? '0 0'
    })
    assert.match(answers.at(-1)?.text ?? '', /^Step 4 is wrong/)
  }
})

test('after a step with an unknown outcome, steps checks the file and continues from there', () => {
  for (const isDone of [false, true]) {
    const tool = createStepsTool()
    let lost = 0
    const { answers } = play('rehearsal/steps-6', 'go', (_name, { command }) => {
      if (!String(command).includes("'line 3 of") || lost > 0) return tool.bash(String(command))
      lost += 1
      if (isDone) tool.bash(String(command))
      return 'The outcome is unknown: the runner is gone.'
    })
    assert.match(answers.at(-1)?.text ?? '', /^All 6 steps ran, each once/)
    assert.equal(tool.log.split('\n').length - 1, 6)
  }
})

test('after a call with cut arguments, steps checks the file and continues', () => {
  const tool = createStepsTool()
  const { conversation } = play('rehearsal/steps-3', 'go', (_name, { command }) => tool.bash(String(command)))
  const script = scriptFor('rehearsal/steps-3', 'go')
  assert.ok(script)
  const cut: Message = { role: 'assistant', text: '', calls: [{ id: 'x', name: 'bash', arguments: {} }], callId: null }
  const refused: Message = { role: 'tool', text: 'the arguments are not valid JSON', calls: [], callId: 'x' }
  const answer = answerTo(script, [...conversation.slice(0, 3), cut, refused], null)
  assert.equal(answer.calls[0]?.arguments['command'], 'cksum < steps.log')
})

test('the answer is a pure function of the conversation, ids included', () => {
  const tool = createStepsTool()
  const { conversation } = play('rehearsal/steps-5', 'go', (_name, { command }) => tool.bash(String(command)))
  const script = scriptFor('rehearsal/steps-5', 'go')
  assert.ok(script)
  for (let length = 1; length < conversation.length; length += 1) {
    const part = conversation.slice(0, length)
    const copy = structuredClone(part)
    assert.deepEqual(answerTo(script, part, null), answerTo(script, copy, null))
  }
  const ids = conversation.flatMap((message) => message.calls.map((call) => call.id))
  assert.equal(new Set(ids).size, 5)
})

test('a user message in the middle of a turn does not restart it, a new prompt after an answer does', () => {
  const tool = createStepsTool()
  const { conversation } = play('rehearsal/steps-3', 'go', (_name, { command }) => tool.bash(String(command)))
  const script = scriptFor('rehearsal/steps-3', 'go')
  assert.ok(script)
  const remark: Message = { role: 'user', text: '(the runner came back)', calls: [], callId: null }
  assert.match(answerTo(script, [...conversation.slice(0, 3), remark], null).text, /^Step 2 of 3/)
  assert.match(answerTo(script, [...conversation, remark], null).text, /^Step 1 of 3/)
})

test('both APIs give the same conversation', () => {
  const openai = fromOpenAi([
    { role: 'system', content: 'be brief' },
    { role: 'user', content: [{ type: 'text', text: 'go' }] },
    {
      role: 'assistant',
      content: 'first',
      tool_calls: [{ id: 'a', type: 'function', function: { name: 'bash', arguments: '{"command":"ls"}' } }],
    },
    { role: 'tool', tool_call_id: 'a', content: 'README' },
  ])
  const anthropic = fromAnthropic(
    [
      { role: 'user', content: 'go' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 's' },
          { type: 'text', text: 'first' },
          { type: 'tool_use', id: 'a', name: 'bash', input: { command: 'ls' } },
        ],
      },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'README' }] }],
      },
    ],
    'be brief',
  )
  assert.deepEqual(anthropic, openai)
  assert.deepEqual(turnOf(openai).calls, [{ id: 'a', name: 'bash', arguments: { command: 'ls' }, result: 'README' }])
})

test('a prefilled answer is continued', () => {
  const script = scriptFor('rehearsal/echo', '')
  assert.ok(script)
  const said: Message = { role: 'user', text: 'hello', calls: [], callId: null }
  const prefill: Message = { role: 'assistant', text: 'You said: he', calls: [], callId: null }
  assert.equal(answerTo(script, [said, prefill], null).text, 'llo')
})

test('the model name selects the script, else the prompt', () => {
  assert.equal(scriptFor('rehearsal/steps-7', 'x')?.name, 'steps-7')
  assert.equal(scriptFor('rehearsal', 'steps 9')?.name, 'steps-9')
  assert.equal(scriptFor('anything', 'fix it')?.name, 'fix')
  assert.equal(scriptFor('rehearsal', 'echo me')?.name, 'echo')
  assert.equal(scriptFor('rehearsal/nonsense', 'x'), undefined)
  assert.equal(scriptFor('rehearsal/steps-0', 'x'), undefined)
  for (const name of ['hostile', 'slow', 'flood-2']) assert.equal(scriptFor(`rehearsal/${name}`, 'x')?.name, name)
  assert.equal(scriptFor('rehearsal/flood-0', 'x'), undefined)
  assert.equal(scriptFor('rehearsal/flood-100000', 'x'), undefined)
})

test('hostile and flood do with a real shell what they say', (t) => {
  const { tools } = realTools(t, {})
  const flooded = play('rehearsal/flood-1', 'go', tools)
  const output = flooded.conversation.find((message) => message.role === 'tool')?.text ?? ''
  assert.equal(output.length, 1_000_000)
  const { answers, conversation } = play('rehearsal/hostile', 'go', tools)
  assert.ok(answers[0]?.text.includes('<script>') && (answers[1]?.text.length ?? 0) > 1024 * 1024)
  const printed = conversation.find((message) => message.role === 'tool')?.text ?? ''
  for (const part of ['\u001b]52;', 'progress 1999\r', '\u0000', '\u202e', '<img src=x'])
    assert.ok(printed.includes(part), part)
})

test('a client without the tools learns which are missing', () => {
  const script = scriptFor('rehearsal/fix', '')
  assert.ok(script)
  const said: Message = { role: 'user', text: 'x', calls: [], callId: null }
  assert.match(
    answerTo(script, [said], ['bash', 'edit']).text,
    /needs the tools read, write, .* rehearsal\/steps-8 needs only bash/,
  )
  assert.match(answerTo(script, [said], ['sh']).text, /rehearsal\/echo needs no tools/)
})
