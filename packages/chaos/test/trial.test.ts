/** The model of a trial and its judge. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message } from '../src/rehearsal/conversation.ts'
import { TRIAL_FAULTS, trialFault, trialPlans } from '../src/trial/faults.ts'
import { answerAt, LAST_STEP, positionOf, STEPS, wordsOf } from '../src/trial/script.ts'
import { shellToolOf } from '../src/rehearsal/shell-tool.ts'
import { type AgentRun, baselineOf, verdictOf } from '../src/trial/verdict.ts'

const LEDGER = '/tmp/ledger.txt'
const text = (step: number, take: number): string => answerAt({ step, does: 'text' }, take, undefined, LEDGER).text
const ALL = Array.from({ length: LAST_STEP }, (_, i) => text(i + 1, 1)).join('\n')
const RUN: AgentRun = { mode: 'tools', output: ALL, ledger: ['1', '2', '3'], end: { kind: 'exit', code: 0, said: '' } }
const judge = (change: Partial<AgentRun>, calm: AgentRun = RUN): string =>
  verdictOf({ ...RUN, ...change }, baselineOf(calm)).verdict

test('the shell tool is found by its name and its command field, whatever the agent calls it', () => {
  const tool = (
    name: string,
    properties: object,
    required: readonly string[] = [],
  ): Parameters<typeof shellToolOf>[0][0] => ({
    name,
    schema: { type: 'object', properties, required },
  })
  const string = { type: 'string' }
  const cases: readonly (readonly [string, Parameters<typeof shellToolOf>[0], string, object])[] = [
    [
      'Claude Code',
      [
        tool('KillShell', { shell_id: string }),
        tool('Bash', { command: string, timeout: { type: 'number' } }, ['command']),
      ],
      'Bash',
      { command: 'ls' },
    ],
    [
      'Gemini CLI',
      [
        tool('run_shell_command', { command: { type: 'STRING' }, is_background: { type: 'BOOLEAN' } }, [
          'command',
          'is_background',
        ]),
      ],
      'run_shell_command',
      { command: 'ls', is_background: false },
    ],
    ['codex', [tool('exec_command', { cmd: string })], 'exec_command', { cmd: 'ls' }],
    ['a list of words', [tool('shell', { command: { type: 'array' } })], 'shell', { command: ['bash', '-lc', 'ls'] }],
    [
      'required extras',
      [
        tool('bash', { command: string, description: string, timeout: { type: ['integer', 'null'] } }, [
          'command',
          'description',
          'timeout',
        ]),
      ],
      'bash',
      { command: 'ls', description: 'Runs the next step', timeout: 60_000 },
    ],
  ]
  for (const [agent, tools, name, args] of cases) {
    const found = shellToolOf(tools)
    assert.equal(found?.name, name, agent)
    assert.deepEqual(found?.arguments('ls'), args, agent)
  }
  assert.equal(shellToolOf([tool('read_file', { path: string }), tool('BashOutput', { bash_id: string })]), undefined)
})

test('the model checks before it repeats a command whose result it did not see', () => {
  const conversation: Message[] = [{ role: 'user', text: 'go', calls: [], callId: null }]
  const tool = shellToolOf([{ name: 'bash', schema: { properties: { command: { type: 'string' } } } }])
  const play = (take: number, result: (command: string) => string): string | undefined => {
    const position = positionOf(conversation, true)
    assert.ok(position)
    const { calls } = answerAt(position, take, tool, LEDGER)
    conversation.push({ role: 'assistant', text: '', calls, callId: null })
    for (const call of calls)
      conversation.push({ role: 'tool', text: result(String(call.arguments['command'])), calls: [], callId: call.id })
    return /trial-\w+-\d/.exec(JSON.stringify(calls))?.[0]
  }
  assert.equal(
    play(1, () => '7919'),
    'trial-step-1',
  )
  assert.equal(
    play(1, (command) => `interrupted: ${command}`),
    'trial-step-2',
  )
  assert.equal(
    play(1, () => String(2 * 79_190)),
    'trial-check-2',
  ) // it did not run
  assert.equal(
    play(2, () => 'lost'),
    'trial-step-2',
  )
  assert.equal(
    play(2, () => String(2 * 79_190 + 1)),
    'trial-check-2',
  ) // it ran
  assert.equal(
    play(1, () => String(3 * 7919)),
    'trial-step-3',
  )
  assert.deepEqual(positionOf(conversation, true), { step: LAST_STEP, does: 'text' })
})

test('every take of an answer has its own words', () => {
  const takes = [1, 2].map((take) => wordsOf(text(2, take)))
  assert.deepEqual(
    takes.map((words) => [words.length, words[0]?.take]),
    [
      [12, 1],
      [12, 2],
    ],
  )
})

test('a run is judged by its commands, its end and its text', () => {
  const half = text(2, 1).slice(0, 60)
  const healed = ALL.replace(text(2, 1), text(2, 2))
  assert.equal(judge({}), 'exact')
  assert.equal(judge({ output: healed }), 'exact')
  assert.equal(judge({ output: `${half}\n${healed}` }), 'echo')
  assert.equal(judge({ output: ALL.replace(text(2, 1), `${text(2, 1)} ${text(2, 1)}`) }), 'echo')
  assert.equal(judge({ output: ALL.replace(text(2, 1), half) }), 'wrong')
  assert.equal(judge({ ledger: ['1', '2', '2', '3'] }), 'wrong')
  assert.equal(judge({ ledger: ['1', '3', '2'] }), 'wrong')
  assert.equal(judge({ ledger: ['1', '2'] }), 'wrong')
  assert.equal(judge({ ledger: ['1', '2'], end: { kind: 'exit', code: 1, said: 'boom' } }), 'error')
  assert.equal(judge({ ledger: ['1'], end: { kind: 'timeout', ms: 1000 } }), 'hang')
})

test('an agent is compared with itself: it may print only its last answer, or each text twice', () => {
  const last = { ...RUN, output: text(LAST_STEP, 1) }
  assert.equal(judge({ output: text(LAST_STEP, 2) }, last), 'exact')
  assert.equal(judge({ output: '' }, last), 'wrong')
  const double = { ...RUN, output: `${ALL}\n${ALL}` }
  assert.equal(judge({ output: double.output }, double), 'exact')
  assert.equal(judge({ output: ALL }, double), 'wrong')
})

test('each fault hits the first attempt at a middle step and at the last answer', () => {
  for (const { fault, plan } of trialPlans(TRIAL_FAULTS, 7)) {
    const hits = Array.from({ length: LAST_STEP + 1 }, (_, step) => trialFault(plan, 'tools', step, 1)?.kind)
    const [kind] = fault.split(':')
    assert.deepEqual(hits, [undefined, undefined, kind, undefined, kind], fault)
    assert.equal(trialFault(plan, 'tools', 2, 2), undefined)
    assert.equal(trialFault(plan, 'text', 0, 1)?.kind, kind)
  }
  assert.equal(STEPS, LAST_STEP - 1)
  assert.throws(() => trialPlans(['nonsense'], 1), /nonsense/)
})
