/** Patience: attempts that cost nothing are bounded by time and the others by count, in the machine and with a simulated clock. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, type FaultCategory, fullPolicy, POLICY_DEFAULTS, type RetryPolicy } from '@breakfall/faults'
import { diceOf } from '../../../test/kit/dice.ts'
import { nextRung, type Rung, rungEvent } from '../src/machine/next-rung.ts'
import { type MachineEvent, reduceAnswer } from '../src/machine/reduce-answer.ts'
import { type AnswerState, initialAnswer, nextAttempt } from '../src/machine/state.ts'

const START = Date.parse('2026-11-16T12:00:00.000Z')
const iso = (ms: number): string => new Date(ms).toISOString()

type Failing = { readonly category: FaultCategory; readonly phase: string; readonly says?: string | undefined }

/** What each attempt meets at a time after the first: a failure, or undefined for an answer. */
type Server = (ms: number, attempt: number) => Failing | undefined

type Run = {
  readonly rungs: readonly Rung[]
  readonly events: readonly MachineEvent[]
  readonly ms: number
  readonly isAnswered: boolean
}

/** Plays one step with the machine and a clock that only waits move. */
function play(server: Server, more: Partial<RetryPolicy> = {}, seed = 1, canPark = false): Run {
  const policy: RetryPolicy = { ...POLICY_DEFAULTS, ...more }
  const dice = diceOf(seed)
  const events: MachineEvent[] = []
  const rungs: Rung[] = []
  let state = initialAnswer()
  let now = START
  const fold = (event: MachineEvent): void => {
    events.push(event)
    state = reduceAnswer(state, event)
  }
  fold({ type: 'step-start' })
  for (let round = 0; round < 5_000; round += 1) {
    const attempt = nextAttempt(state)
    const failing = server(now - START, attempt)
    if (failing === undefined) {
      fold({ type: 'answered' })
      return { rungs, events, ms: now - START, isAnswered: true }
    }
    if (failing.says !== undefined) fold({ type: 'text-delta', attempt, part: 'p1', text: failing.says })
    const fault = new Fault(failing.category, { phase: failing.phase, at: iso(now) })
    const failure = { attempt, fault, diverged: false, contentStarted: failing.says !== undefined }
    const ladder = {
      policy,
      canContinue: false,
      canTakeBack: true,
      canReplay: true,
      fallbacks: 0,
      canCompact: false,
      canTell: false,
      canPark,
      deadlineAt: null,
      dice: dice(),
    }
    const rung = nextRung(state, failure, ladder, now)
    rungs.push(rung)
    for (const { attempt: of, part } of rung.discards) fold({ type: 'part-discarded', attempt: of, part })
    fold(rungEvent(rung, now))
    if (!('delayMs' in rung)) return { rungs, events, ms: now - START, isAnswered: false }
    now += rung.delayMs
  }
  return assert.fail('it never ends')
}

const REFUSED = { category: 'model_unreachable', phase: 'connect' } as const
const CUT = { category: 'model_stream_interrupted', phase: 'stream', says: 'Hello' } as const

const AWAY: readonly (readonly [string, Failing])[] = [
  ['refuses connections', REFUSED],
  ['resets before the first byte', { category: 'model_stream_interrupted', phase: 'headers' }],
  ['answers 503', { category: 'model_overloaded', phase: 'headers' }],
  ['loads its model', { category: 'model_overloaded', phase: 'loading' }],
  ['answers 500', { category: 'model_server_error', phase: 'headers' }],
  ['answers 429', { category: 'model_rate_limited', phase: 'headers' }],
  ['says that it is overloaded before any content', { category: 'model_overloaded', phase: 'stream' }],
]

for (const [how, failing] of AWAY) {
  test(`a server that ${how} for 5, 20 or 60 s, before content or mid-stream, is survived and found again soon`, () => {
    for (const awayMs of [5_000, 20_000, 60_000]) {
      for (let seed = 1; seed <= 20; seed += 1) {
        const before = play((ms) => (ms < awayMs ? failing : undefined), {}, seed)
        const midStream = play((ms, n) => (n === 1 ? CUT : ms < awayMs ? failing : undefined), {}, seed)
        for (const run of [before, midStream]) {
          assert.ok(run.isAnswered)
          assert.ok(run.ms - awayMs <= 5_000, `found ${run.ms - awayMs} ms after it was back`)
          assert.ok(run.rungs.length <= 50, `${run.rungs.length} attempts`)
        }
        for (const rung of before.rungs) assert.ok('delayMs' in rung && rung.delayMs >= 100 && rung.delayMs <= 5_000)
      }
    }
  })
}

test('a server that stays away is given up when patience ends, and a turn that can park parks', () => {
  const gone = play(() => REFUSED)
  assert.equal(gone.rungs.at(-1)?.decision.because, 'patience_spent')
  assert.equal(gone.ms, 120_000, 'the last attempt comes when patience ends')
  const parked = play(() => REFUSED, {}, 1, true)
  assert.deepEqual([parked.rungs.at(-1)?.action, parked.ms], ['park', 120_000])
})

test('failures after content count as attempts, whatever patience allows', () => {
  const { rungs } = play(() => CUT)
  assert.deepEqual([rungs.length, rungs.at(-1)?.decision.because], [6, 'attempts_spent'])
})

test('failures that cost nothing do not count as attempts, and content ends an outage', () => {
  const { rungs, isAnswered } = play((_, n) => (n > 60 ? undefined : n % 10 === 0 && n < 60 ? CUT : REFUSED))
  assert.ok(isAnswered)
  assert.equal(rungs.length, 60)
})

test('a timeout and an answer without a word are not free: the server has worked on them', () => {
  for (const failing of [
    { category: 'model_stream_stalled', phase: 'headers' },
    { category: 'model_stream_incomplete', phase: 'stream' },
    { category: 'model_server_error', phase: 'stream' },
  ] as const)
    assert.equal(play(() => failing).rungs.length, 6, failing.category)
})

test('patienceMs 0 counts every failure as an attempt, and attemptsMax 1 then means no retry', () => {
  assert.equal(play(() => REFUSED, { patienceMs: 0 }).rungs.length, 6)
  assert.equal(play(() => REFUSED, { patienceMs: 0, attemptsMax: 1 }).rungs.length, 1)
})

test('whoever allows fewer attempts or failures than the default gets that bound for all, unless patience is set too', () => {
  assert.equal(fullPolicy({}).patienceMs, 120_000)
  assert.equal(fullPolicy({ attemptsMax: 9 }).patienceMs, 120_000)
  assert.equal(fullPolicy({ attemptsMax: 3 }).patienceMs, 0)
  assert.equal(fullPolicy({ failuresMax: 3, patienceMs: undefined }).patienceMs, 0)
  assert.equal(fullPolicy({ attemptsMax: 1, patienceMs: 60_000 }).patienceMs, 60_000)
})

test('a backoff of 0 does not hammer a server that is away', () => {
  const { rungs } = play((ms) => (ms < 60_000 ? REFUSED : undefined), { backoffMs: 0 })
  assert.ok(rungs.length <= 65, `${rungs.length} attempts in a minute`)
})

test('a crash does not refill patience: the events fold into the same outage', () => {
  const { events } = play((ms) => (ms < 60_000 ? REFUSED : undefined))
  const journal = JSON.parse(JSON.stringify(events.slice(0, 10))) as MachineEvent[]
  const restored = [...journal, { type: 'taken-over' } as const].reduce<AnswerState>(reduceAnswer, initialAnswer())
  assert.deepEqual(restored.outage, { since: iso(START), failures: 9 })
  const fault = new Fault('model_unreachable', { phase: 'connect' })
  const rung = nextRung(
    restored,
    { attempt: nextAttempt(restored), fault, diverged: false, contentStarted: false },
    {
      policy: POLICY_DEFAULTS,
      canContinue: false,
      canTakeBack: true,
      canReplay: true,
      fallbacks: 0,
      canCompact: false,
      canTell: false,
      canPark: true,
      deadlineAt: null,
      dice: 1,
    },
    START + 120_000,
  )
  assert.deepEqual([rung.action, rung.decision.because], ['park', 'patience_spent'])
})

// ---- budgets ----

const retryAt = (ms: number, attempt: number, free = false): MachineEvent => ({
  type: 'retry',
  at: iso(START + ms),
  attempt,
  fault: new Fault(free ? 'model_unreachable' : 'model_stream_interrupted').report,
  action: 'retry',
  delayMs: 400,
  free,
})

test('a turn that advances never runs out, however many failures each of its steps needs', () => {
  for (const perStep of [1, 2, 5]) {
    let state = initialAnswer()
    for (let step = 1; step <= 500; step += 1) {
      state = reduceAnswer(state, { type: 'step-start' })
      for (let n = 1; n <= perStep; n += 1) state = reduceAnswer(state, retryAt(0, n))
      assert.ok(state.budget.failures < 2 * perStep + 1)
      assert.ok(state.budget.waitedMs <= 2 * perStep * 400)
      state = reduceAnswer(state, { type: 'tool-call' })
      state = reduceAnswer(state, { type: 'tool-call' }) // a second call of the same answer earns nothing
    }
  }
})

test('progress after a park starts the parks over, and without progress they add up', () => {
  const fault = new Fault('model_stream_interrupted').report
  const park = (ms: number): readonly MachineEvent[] => [
    { type: 'parked', at: iso(START + ms), fault },
    { type: 'resumed', at: iso(START + ms + 10_000) },
  ]
  const start = { type: 'step-start' } as const
  const stuck = [start, ...park(0), ...park(20_000), ...park(40_000)].reduce<AnswerState>(reduceAnswer, initialAnswer())
  assert.deepEqual([stuck.budget.parks, stuck.budget.parkedMs, stuck.budget.failures], [3, 30_000, 3])
  const { budget } = reduceAnswer(stuck, { type: 'tool-call' })
  assert.deepEqual([budget.parks, budget.parkedMs, budget.failures], [0, 15_000, 2])
})
