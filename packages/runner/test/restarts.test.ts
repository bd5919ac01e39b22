import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { tempFolder } from '../../../test/kit/folder.ts'
import { Restarts } from '../src/box/restarts.ts'
import type { ExecEnd, ExecReservation } from '../src/exec/exec-folder.ts'
import { fillRequest } from '../src/exec/request.ts'

const reservation: ExecReservation = {
  execId: 'web',
  command: [],
  request: fillRequest({ shell: 'exit 1', background: { name: 'web', restart: { max: 3 } } }),
  hash: '',
  reservedAtMs: 0,
  reservedMonotonicMs: 0,
  machineBootId: 'boot',
}

const failed: ExecEnd = {
  exit: {
    cause: 'exited',
    started: true,
    code: 1,
    signal: null,
    signalGuess: null,
    durationMs: 1,
    survivors: [],
    stdoutBytes: 0,
    stderrBytes: 0,
    truncated: false,
    diagnostics: [],
  },
  startedAtMs: 0,
  endedAtMs: 0,
  lastSeq: 2,
}

function box(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const folder = tempFolder(t)
  mkdirSync(join(folder, 'web'))
  const started: string[] = []
  const restarts = (): Restarts =>
    new Restarts({
      state: 'running',
      sinceMs: 0,
      now: () => 0,
      has: (execId) => started.includes(execId),
      folderOf: (execId) => join(folder, execId),
      start: ({ execId }) => Promise.resolve(started.push(execId)),
    })
  return { started, restarts }
}

test('a process that failed is listed until it is started again', (t) => {
  const { started, restarts } = box(t)
  const here = restarts()
  here.ended(reservation, failed)
  assert.deepEqual(here.waiting, [reservation])
  t.mock.timers.tick(999)
  assert.deepEqual(started, [])
  t.mock.timers.tick(1)
  assert.deepEqual([started, here.waiting], [['web.2'], []])
})

test('a process is started again after its delay although the clock was turned back by days', (t) => {
  const { started, restarts } = box(t)
  restarts().ended(reservation, { ...failed, endedAtMs: 2 * 24 * 3_600_000 })
  t.mock.timers.tick(1_000)
  assert.deepEqual(started, ['web.2'])
})

test('a process that is stopped while it waits is not started again, by this runner or the next', (t) => {
  const { started, restarts } = box(t)
  const here = restarts()
  here.ended(reservation, failed)
  here.stop(reservation)
  assert.deepEqual(here.waiting, [])
  const next = restarts()
  next.ended(reservation, failed)
  assert.deepEqual(next.waiting, [])
  t.mock.timers.tick(3_600_000)
  assert.deepEqual(started, [])
})
