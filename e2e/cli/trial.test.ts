/** `breakfall trial`: an agent is scored under faults, alone and behind the gateway. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isolation, LAUNCHER, Place } from '../breakfall.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const AGENT = [process.execPath, join(import.meta.dirname, 'tiny-agent.mjs')]

type Result = {
  readonly outcome: string
  readonly seed: number
  readonly cells: readonly {
    fault: string
    dialect: string
    verdict: string
    why: string
    through: string
    requests: number
    ms: number
  }[]
  readonly score: { readonly exact: number; readonly of: number }
}

test('a trial scores an agent under each fault, alone and behind the gateway', LIMIT, async () => {
  await using place = new Place()
  const faults = 'fin,cut_tool_arguments:finish=false:ending=reset,status:503'
  const flags = ['--faults', faults, '--seed', '7', '--through-gateway', '--hold', 'answer', '--require', 'exact=100']
  const { code, lines, stderr } = await place.run(['trial', ...flags, '--json', '--', ...AGENT])
  assert.equal(code, 0, stderr)
  const result = JSON.parse(lines.at(-1) ?? '') as Result
  assert.deepEqual([result.outcome, result.seed, result.score], ['finished', 7, { exact: 3, of: 3 }])
  assert.deepEqual(
    result.cells.map(({ fault, through, dialect, verdict }) => [fault.split(':')[0], through, dialect, verdict]),
    [
      ['fin', 'direct', 'openai-chat', 'error'],
      ['fin', 'gateway', 'openai-chat', 'exact'],
      ['cut_tool_arguments', 'direct', 'openai-chat', 'error'],
      ['cut_tool_arguments', 'gateway', 'openai-chat', 'exact'],
      ['status', 'direct', 'openai-chat', 'exact'],
      ['status', 'gateway', 'openai-chat', 'exact'],
    ],
  )
  assert.ok(result.cells.every(({ why, requests, ms }) => why !== '' && requests > 1 && ms > 0))
})

test('in a trial, breakfall run is exact: what is piped holds each answer once', LIMIT, async () => {
  await using place = new Place()
  const faults = 'fin,in_band_error'
  const agent = [process.execPath, LAUNCHER, 'run', '--model', 'any', '--backoff-ms', '1', ...isolation, 'go']
  const { code, lines, stderr } = await place.run([
    'trial',
    '--faults',
    faults,
    '--seed',
    '7',
    '--json',
    '--',
    ...agent,
  ])
  assert.equal(code, 0, stderr)
  const { cells } = JSON.parse(lines.at(-1) ?? '') as Result
  assert.deepEqual(
    cells.map(({ verdict, why }) => [verdict, why]),
    cells.map(({ why }) => ['exact', why]),
  )
  assert.equal(cells.length, 2)
})

test(
  'a trial exits 1 if the requirement does not hold, and prints a card with a sentence for each failure',
  LIMIT,
  async () => {
    await using place = new Place()
    const { code, lines, stderr } = await place.run([
      'trial',
      '--faults',
      'fin',
      '--require',
      'exact=100',
      '--',
      ...AGENT,
    ])
    assert.equal(code, 1)
    assert.match(
      lines.join('\n'),
      /the socket is closed after some text +error\n +It gave up with exit code 1: .*error/i,
    )
    assert.match(
      lines.join('\n'),
      /direct: 0 of 1 exact\nThe same behind the gateway: breakfall trial --through-gateway/,
    )
    assert.match(stderr, /seed \d+/)
  },
)

test('a trial of a command that fails without faults is a usage error that says what to do', LIMIT, async () => {
  await using place = new Place()
  for (const [command, why] of [
    [['true'], /sent no request to the trial model.*\{url\}/],
    [['no-such-agent-here'], /Cannot start no-such-agent-here: there is no program/],
  ] as const) {
    const { code, stderr } = await place.run(['trial', '--', ...command])
    assert.equal(code, 2, stderr)
    assert.match(stderr, why)
  }
  for (const [command, why] of [
    [['node', 'agent.mjs'], /It runs in an empty folder, so agent\.mjs was not there: write \/.*\/agent\.mjs instead/],
    [['./agent.sh'], /sent no request/], // it was found and started
  ] as const) {
    writeFileSync(join(place.folder, command.at(-1) ?? ''), '#!/bin/sh\n', { mode: 0o755 })
    const { code, stderr } = await place.run(['trial', '--', ...command])
    assert.equal(code, 2, stderr)
    assert.match(stderr, why)
  }
  for (const [flags, why] of [
    [['--require', 'exact=200'], /--require must be exact=N with N from 0 to 100/],
    [['--faults', ''], /--faults needs at least one fault/],
    [['--faults', ' , '], /--faults needs at least one fault/],
    [['--timeout-ms', '0'], /--timeout-ms must be at least 1, got 0/],
  ] as const) {
    const { code, stderr } = await place.run(['trial', ...flags, '--', 'true'])
    assert.deepEqual([code, stderr.match(why)?.length], [2, 1], stderr)
  }
  const { code, stderr } = await place.run(['trial', '--', ''])
  assert.deepEqual([code, stderr.includes('The command is empty')], [2, true], stderr)
})

test('an agent that is stopped while it starts is a run that took too long', LIMIT, async () => {
  await using place = new Place()
  const { code, stderr } = await place.run(['trial', '--timeout-ms', '1', '--', ...AGENT])
  assert.equal(code, 2, stderr)
  assert.match(stderr, /sent no request to the trial model|failed without any fault/)
})

test('a cancelled trial says so, ends its agent, and has the runs until then in its result', LIMIT, async () => {
  await using place = new Place()
  const faults = ['--faults', 'status:503,stall:600000']
  const trial = place.start(['trial', ...faults, '--seed', '7', '--json', '--', ...AGENT])
  await trial.seen((line) => line['event'] === 'cell')
  trial.child.kill('SIGINT')
  const { outcome, seed, cells } = await trial.seen((line) => line['event'] === 'result')
  assert.deepEqual([outcome, seed, Array.isArray(cells) && cells.length], ['cancelled', 7, 1])
  assert.equal((await trial.ended).code, 130)
})
