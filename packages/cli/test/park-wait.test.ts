/** How long `run` stays with a parked turn. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { Fault } from '@breakfall/faults'
import type { SessionEventOf } from '@breakfall/wire'
import { ParkWait } from '../src/commands/run/park-wait.ts'

const NOW = Date.parse('2026-11-16T12:00:00.000Z')

const parkedUntil = (resumeAt: string | null): SessionEventOf<'parked'> => ({
  type: 'parked',
  seq: 3,
  sessionId: 's',
  turnId: 't',
  at: new Date(NOW).toISOString(),
  fault: new Fault('model_overloaded').report,
  resumeAt,
})

/** Parks and returns what was said and after how many seconds the run left. */
function waited(t: TestContext, resumesInMs: number | null, parkWaitMs?: number): { said: string; seconds: number } {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'], now: NOW })
  const lines: string[] = []
  const interrupt = { leaveInstead: () => undefined }
  const out = { say: (line: string) => void lines.push(line) }
  using wait = new ParkWait({ parkWaitMs, interrupt, out, isTheirs: false, isLasting: () => true })
  wait.park(parkedUntil(resumesInMs === null ? null : new Date(NOW + resumesInMs).toISOString()))
  let seconds = 0
  for (; !wait.signal.aborted && seconds < 600; seconds += 1) t.mock.timers.tick(1_000)
  t.mock.timers.reset()
  return { said: lines.join('\n'), seconds }
}

test('a run waits until the park it announced is over, and a little longer', (t) => {
  for (const seconds of [60, 72, 110]) {
    const got = waited(t, seconds * 1_000)
    assert.ok(got.seconds >= seconds + 5, `${got.seconds} s for a park of ${seconds} s`)
    assert.match(got.said, /^waiting for up to .*, because the turn resumes in .*; Ctrl-C leaves the turn parked$/)
  }
  assert.match(waited(t, 72_000).said, /up to 82 s, because the turn resumes in 72 s;/)
})

test('a run waits a minute for a park without a time, with an early time or with a distant one', (t) => {
  assert.deepEqual(waited(t, null), { said: 'waiting for up to 60 s; Ctrl-C leaves the turn parked', seconds: 60 })
  assert.equal(waited(t, 5_000).seconds, 60)
  assert.deepEqual(waited(t, 3_600_000), {
    said: 'waiting for up to 60 s; Ctrl-C leaves the turn parked',
    seconds: 60,
  })
})

test('--park-wait-ms is kept exactly, and 0 leaves at once', (t) => {
  assert.equal(waited(t, 72_000, 30_000).seconds, 30)
  assert.deepEqual(waited(t, 72_000, 0), { said: '', seconds: 0 })
})
