/** Which columns a trial has, and what it says about a command that cannot be judged. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AgentRun } from '@breakfall/chaos'
import { columnsOf } from '../src/commands/trial/cell.ts'
import { whyNotJudged } from '../src/commands/trial/trial.ts'

test('a trial has a column behind the gateway if asked for one, or for what it holds back', () => {
  const columns = (options: Parameters<typeof columnsOf>[0]) => columnsOf(options).map(({ name, hold }) => [name, hold])
  assert.deepEqual(columns({}), [['direct', undefined]])
  const gateway = ['gateway', undefined]
  assert.deepEqual(columns({ throughGateway: true }), [['direct', undefined], gateway])
  for (const throughGateway of [true, false])
    assert.deepEqual(columns({ throughGateway, hold: ['answer', 'tools'] }), [
      ['direct', undefined],
      ['gateway', 'answer'],
      ['gateway, hold tools', 'tools'],
    ])
})

test('for a command that fails without faults, the card says what went wrong and only what helps against that', () => {
  const exit = (code: number, said = ''): AgentRun['end'] => ({ kind: 'exit', code, said })
  const told = (run: Partial<AgentRun>, facts: Partial<Parameters<typeof whyNotJudged>[1]> = {}): string =>
    whyNotJudged(
      { mode: 'tools', output: '', ledger: [], end: exit(0), ...run },
      { requests: 0, why: 'Why not.', here: undefined, ...facts },
    )
  assert.equal(
    told({ end: exit(1, "Error: Cannot find module '/tmp/x/agent.mjs'") }),
    "Your command exited with 1 before it called a model: Error: Cannot find module '/tmp/x/agent.mjs'. It runs in an empty folder; use absolute paths.",
  )
  assert.match(
    told({ end: exit(1) }, { here: 'agent.mjs' }),
    /so agent\.mjs was not there: write \/.*agent\.mjs instead\.$/,
  )
  assert.match(told({}), /^Your command sent no request to the trial model\. Pass the base URL to it with \{url\}/)
  assert.equal(
    told({}, { requests: 3 }),
    'Your agent called the model but did not run its command. Let it run tools without asking (Claude Code: --dangerously-skip-permissions).',
  )
  assert.match(told({ ledger: ['1'] }, { requests: 3 }), /^Your command failed without any fault\. Why not\.$/)
  assert.match(told({ mode: 'text' }, { requests: 1, why: undefined }), /did not print the model's answer/)
})
