import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { Fault } from '@breakfall/faults'
import type { SessionEventOf } from '@breakfall/wire'
import { serverLine, StatusLine } from '../src/commands/run/status-line.ts'
import { Output } from '../src/terminal/output.ts'

const event = (line?: string): SessionEventOf<'model-server'> => ({
  type: 'model-server',
  seq: 3,
  sessionId: 's',
  turnId: 't',
  at: '2026-11-16T12:00:12.300Z',
  state: 'loading',
  since: '2026-11-16T12:00:00.000Z',
  ...(line === undefined ? {} : { line }),
})

/** What appears on stdout. */
function shown(isTTY: boolean, show: (status: StatusLine, out: Output) => void, patienceMs?: number): string {
  const stdout = Object.assign(new PassThrough(), { isTTY, columns: 60 })
  const out = new Output({ json: false, stdout, stderr: new PassThrough() })
  using status = new StatusLine(out, patienceMs)
  show(status, out)
  return String(stdout.read() ?? '')
}

test('says what the model server is doing, for how long, and its last line', () => {
  assert.equal(serverLine(event('load_tensors: 3 of 10')), 'the model server: loading for 12 s: load_tensors: 3 of 10')
  assert.equal(serverLine(event(), 2_000), 'the model server: loading for 14 s')
})

test('is one line after another without a terminal', () => {
  const text = shown(false, (status) => {
    status.show(event('one'))
    status.show(event('two'))
  })
  assert.equal(text, '… the model server: loading for 12 s: one\n… the model server: loading for 12 s: two\n')
})

test('is one line that changes at a terminal, and stays when something else follows', () => {
  const text = shown(true, (status, out) => {
    status.show(event('one'))
    status.show(event('two'))
    out.line('an answer')
    status.show(event('three'))
  })
  assert.equal(text.split('\u001b[1A\u001b[J').length - 1, 1, JSON.stringify(text))
  assert.match(text, /two.*\n.*an answer\n.*three/s)
})

const START = Date.parse('2026-11-16T12:00:00.000Z')

/** A retry that cost nothing, some seconds after the first one. */
const freeRetry = (seconds: number, errorRaw = 'connect ECONNREFUSED'): SessionEventOf<'retry'> => ({
  type: 'retry',
  seq: 4,
  sessionId: 's',
  turnId: 't',
  at: new Date(START + seconds * 1_000).toISOString(),
  step: 1,
  attempt: 1,
  fault: new Fault('model_unreachable', { errorRaw }).report,
  action: 'retry',
  delayMs: 2_000,
  nextAt: new Date(START).toISOString(),
  max: 6,
  free: true,
})

test('retries that cost nothing print a line for each reason and each half minute without a terminal', () => {
  const text = shown(false, (status) => {
    for (let seconds = 0; seconds <= 65; seconds += 2.5) status.showFreeRetry(freeRetry(seconds))
    status.showFreeRetry(freeRetry(67, 'Loading model'))
  })
  assert.deepEqual(text.trim().split('\n'), [
    '⚡ retrying: model_unreachable: connect ECONNREFUSED',
    '⚡ retrying for 30 s (attempt 13): model_unreachable: connect ECONNREFUSED',
    '⚡ retrying for 60 s (attempt 25): model_unreachable: connect ECONNREFUSED',
    '⚡ retrying: model_unreachable: Loading model',
  ])
})

test('retries that cost nothing are one line that changes at a terminal', () => {
  const text = shown(true, (status, out) => {
    for (const seconds of [0, 2, 5]) status.showFreeRetry(freeRetry(seconds))
    status[Symbol.dispose]()
    out.line('an answer')
  })
  assert.equal(text.split('\u001b[1A\u001b[J').length - 1, 2, JSON.stringify(text))
  assert.match(text, /for 5 s \(attempt 3\).*an answer\n$/s)
})

test('retries say until when they continue, and another reason does not start over', () => {
  const retries = (status: StatusLine): void => {
    status.showFreeRetry(freeRetry(0))
    status.showFreeRetry(freeRetry(30))
    status.showFreeRetry(freeRetry(40, 'Loading model'))
  }
  assert.deepEqual(shown(false, retries, 120_000).trim().split('\n'), [
    '⚡ retrying until 12:02:00 UTC: model_unreachable: connect ECONNREFUSED',
    '⚡ retrying for 30 s (attempt 2), until 12:02:00 UTC: model_unreachable: connect ECONNREFUSED',
    '⚡ retrying until 12:02:00 UTC: model_unreachable: Loading model',
  ])
})
