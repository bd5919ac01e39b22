import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type HangLimits, type HangVerdict, NO_SUSPICION, type Observation, observe } from '../src/hang-verdict.ts'
import type { ProbeResult } from '../src/probes.ts'
import type { VitalSigns } from '../src/vital-signs.ts'

const ROUND_MS = 10_000
const LIMITS: HangLimits = { stillMs: 60_000, hungMs: 600_000, failuresMax: 3, roundMsMax: 20_000 }
const STILL: VitalSigns = {
  isStopped: false,
  isBlocked: false,
  cpuMs: 5_000,
  residentBytes: 4e9,
  readBytes: 1e9,
  majorFaults: 100,
}

const probe = (answer: ProbeResult['answer'], isNotListening = false): ProbeResult => ({
  ok: answer === 'ok',
  answer,
  why: answer === 'ok' ? '' : 'no answer within 5 s',
  isActivity: false,
  isNotListening,
})

type Seen = Partial<Observation>

/** The verdict, and in which round it came. Each round sees what `round` says about it. */
function watch(rounds: number, round: (n: number) => Seen, limits = LIMITS): [HangVerdict['reason'], number] | 'alive' {
  let state = NO_SUSPICION
  for (let n = 0; n < rounds; n += 1) {
    const nowMs = n * ROUND_MS
    const seen: Observation = {
      nowMs,
      probe: probe('ok'),
      vitals: STILL,
      hasOutput: false,
      quietMs: nowMs,
      ...round(n),
    }
    const { state: next, verdict } = observe(state, seen, limits)
    if (verdict !== undefined) return [verdict.reason, n + 1]
    state = next
  }
  return 'alive'
}

describe('a child that does not answer', () => {
  const none = probe('none')

  it('is hung after a few probes if nothing of it moves', () => {
    assert.deepEqual(
      watch(9, () => ({ probe: none })),
      ['unhealthy', 3],
    )
    assert.deepEqual(
      watch(9, () => ({ probe: probe('busy') })),
      ['unhealthy', 3],
    )
  })

  for (const [what, vitals] of [
    ['computes', (n: number) => ({ ...STILL, cpuMs: 5_000 + n * 500 })],
    ['waits for the disk', () => ({ ...STILL, isBlocked: true })],
    ['swaps', (n: number) => ({ ...STILL, majorFaults: n * 50 })],
    ['reads a file', (n: number) => ({ ...STILL, readBytes: n * 4e6 })],
    ['fills its memory', (n: number) => ({ ...STILL, residentBytes: n * 1e8 })],
  ] as const) {
    it(`is only slow while it ${what}, up to the limit of all patience`, () => {
      assert.equal(
        watch(60, (n) => ({ probe: none, vitals: vitals(n) })),
        'alive',
      )
      assert.deepEqual(
        watch(99, (n) => ({ probe: none, vitals: vitals(n) })),
        ['unhealthy', 61],
      )
    })
  }

  it('is alive while it prints', () => {
    assert.equal(
      watch(20, () => ({ probe: none, hasOutput: true })),
      'alive',
    )
  })

  it('is hung at once if it was stopped', () => {
    assert.deepEqual(
      watch(9, () => ({ probe: none, vitals: { ...STILL, isStopped: true } })),
      ['unhealthy', 1],
    )
  })

  it('is believed when it says that it is unhealthy, however busy it is', () => {
    assert.deepEqual(
      watch(9, (n) => ({ probe: probe('rejected'), vitals: { ...STILL, cpuMs: n * 9_000 } })),
      ['unhealthy', 3],
    )
  })

  it('no longer serves if its port refuses twice', () => {
    assert.deepEqual(
      watch(9, () => ({ probe: probe('none', true) })),
      ['unhealthy', 2],
    )
  })

  it('gets the benefit of the doubt where a system shows no vital signs, but only with work to do', () => {
    assert.equal(
      watch(20, () => ({ probe: none, vitals: undefined })),
      'alive',
    )
    assert.deepEqual(
      watch(20, () => ({ probe: none, vitals: undefined, quietMs: undefined })),
      ['unhealthy', 3],
    )
  })
})

describe('a child that answers its health check', () => {
  it('is hung if a request waits and nothing moves for long enough', () => {
    assert.deepEqual(
      watch(9, () => ({})),
      ['no_progress', 7],
    )
  })

  it('is hung even if it logs every health check', () => {
    assert.deepEqual(
      watch(9, () => ({ hasOutput: true })),
      ['no_progress', 7],
    )
  })

  it('is alive while it works, and while no one waits', () => {
    assert.equal(
      watch(99, (n) => ({ vitals: { ...STILL, cpuMs: n * 200 } })),
      'alive',
    )
    assert.equal(
      watch(99, () => ({ quietMs: undefined })),
      'alive',
    )
  })

  it('is not hung because the machine slept', () => {
    assert.equal(
      watch(2, (n) => ({ nowMs: n * 3_600_000, quietMs: n * 3_600_000 })),
      'alive',
    )
  })
})
