/** A client that names no script gets one that works with its tools. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OfferedTool } from '../src/rehearsal/apis.ts'
import { scriptForClient } from '../src/rehearsal/client-script.ts'
import type { Message } from '../src/rehearsal/conversation.ts'
import { answerTo } from '../src/rehearsal/script.ts'
import { createStepsTool } from '../src/rehearsal/steps.ts'

const string = { type: 'string' }
const tool = (name: string, properties: Record<string, unknown>): OfferedTool => ({ name, schema: { properties } })
const bash = tool('bash', { command: string })

test('an agent with any shell tool runs eight steps through it, each once', () => {
  const shells = [
    bash,
    tool('run_shell_command', { command: string, description: string }),
    tool('shell', { cmd: { type: 'array', items: string } }),
  ]
  for (const shell of shells) {
    const offered = [tool('read_file', { path: string }), shell]
    const steps = createStepsTool()
    const conversation: Message[] = [{ role: 'user', text: 'tidy up, please', calls: [], callId: null }]
    const say = (role: Message['role'], more: Partial<Message>): void =>
      void conversation.push({ role, text: '', calls: [], callId: null, ...more })
    for (let answers = 0; conversation.at(-1)?.role !== 'assistant' && answers < 20; answers += 1) {
      const script = scriptForClient('any-model', 'tidy up, please', offered)
      assert.ok(script)
      const names = offered.map(({ name }) => name)
      const { text, calls } = answerTo(script, conversation, names)
      say('assistant', { text, calls })
      for (const call of calls) {
        assert.equal(call.name, shell.name)
        const [given] = Object.values(call.arguments)
        const command: unknown = Array.isArray(given) ? given.at(-1) : given
        say('tool', { text: steps.bash(String(command)), callId: call.id })
      }
    }
    assert.match(conversation.at(-1)?.text ?? '', /^All 8 steps ran, each once and in order/, shell.name)
  }
})

test('a client without a shell gets its prompt back, one with all tools the task, and a name decides before that', () => {
  const all = [bash, ...['read', 'edit', 'write'].map((name) => tool(name, { path: string }))]
  const chosen = (model: string, prompt: string, tools: readonly OfferedTool[] | null): string | undefined =>
    scriptForClient(model, prompt, tools)?.name
  assert.equal(chosen('any', 'hello', null), 'echo')
  assert.equal(chosen('any', 'hello', [tool('search', { query: string })]), 'echo')
  assert.equal(chosen('any', 'hello', all), 'fix')
  assert.equal(chosen('any', 'steps 3', all), 'steps-3')
  assert.equal(chosen('rehearsal/fix', 'hello', null), 'fix')
  assert.equal(chosen('rehearsal/nonsense', 'hello', all), undefined)
})
