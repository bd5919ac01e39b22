import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SUPERVISOR_DEFAULTS } from '../src/index.ts'
import type { JudgedReport, RestartPlan } from '../src/report.ts'
import { judge, NO_FACTS } from '../src/report.ts'
import { RestartPolicy } from '../src/restart-policy.ts'
import { collectDiagnostics } from '../src/diagnostics.ts'

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE

function report(stderr = '', code = 1): JudgedReport {
  const collector = collectDiagnostics()
  if (stderr !== '') collector.line(stderr)
  return judge({
    ...NO_FACTS,
    childId: 'c',
    runId: 'r',
    name: 'x',
    command: 'x',
    phase: 'ready',
    rawCode: code,
    startedAt: '',
    diagnoses: collector.diagnoses(),
    nowMs: 0,
  })
}

/** Fails at these times, after each run was ready for this long. */
const NEVER_READY = null

function fail(times: readonly number[], readyFor: number | null = 10, of = report()): readonly RestartPlan[] {
  const policy = new RestartPolicy(SUPERVISOR_DEFAULTS)
  const readyForMs = readyFor ?? undefined
  return times.map((now) => policy.plan(of, { readyForMs, now, dice: 1, override: undefined }))
}

describe('the restart policy', () => {
  it('waits up to 0.5, 1, 2 and 4 seconds, and gives up at the fifth failure in ten minutes', () => {
    const plans = fail([0, 1_000, 2_000, 3_000, 4_000])
    assert.deepEqual(
      plans.map((plan) => plan.delayMs),
      [500, 1_000, 2_000, 4_000, null],
    )
    assert.equal(plans.at(-1)?.decision, 'give_up')
    assert.equal(plans.at(-1)?.because, 'crash_loop')
  })

  it('uses full jitter: any delay between zero and the ceiling', () => {
    const policy = new RestartPolicy(SUPERVISOR_DEFAULTS)
    const at = (dice: number, now: number) => policy.plan(report(), { readyForMs: 10, now, dice, override: undefined })
    assert.deepEqual([at(0, 0).delayMs, at(0.5, 1).delayMs], [0, 500])
  })

  it('starts over after a minute in the ready state', () => {
    const plans = fail([0, 5 * MINUTE], MINUTE)
    assert.deepEqual(
      plans.map((plan) => plan.delayMs),
      [500, 500],
    )
  })

  it('does not start over for a child that was up for a minute without becoming ready', () => {
    assert.deepEqual(
      fail([0, 5 * MINUTE], NEVER_READY).map((plan) => plan.delayMs),
      [500, 1_000],
    )
  })

  it('never gives up on a child that fails four times a month, or once a day', () => {
    assert.ok(fail([0, 7 * DAY, 14 * DAY, 21 * DAY], 6 * DAY).every((plan) => plan.decision === 'restart'))
    const daily = Array.from({ length: 60 }, (_, day) => day * DAY)
    assert.ok(fail(daily, 2 * MINUTE).every((plan) => plan.decision === 'restart' && plan.delayMs === 500))
  })

  it('gives up at once if the cause cannot go away', () => {
    const [plan] = fail([0], NEVER_READY, report("Error: Cannot find module 'nope-pkg'"))
    assert.deepEqual([plan?.decision, plan?.because], ['give_up', 'never_retry'])
  })

  it('gives up if a change is needed and the child was never ready, but restarts a child that had served', () => {
    const oom = report('CUDA error: out of memory')
    assert.equal(fail([0], NEVER_READY, oom)[0]?.because, 'needs_change')
    for (const servedMs of [0, 10]) assert.equal(fail([0], servedMs, oom)[0]?.decision, 'restart')
  })

  it('lets the caller decide, but not forever', () => {
    const policy = new RestartPolicy(SUPERVISOR_DEFAULTS)
    const never = report("Error: Cannot find module 'nope-pkg'")
    const plan = (override: boolean) => policy.plan(never, { readyForMs: undefined, now: 0, dice: 1, override })
    assert.equal(plan(true).decision, 'restart')
    assert.equal(plan(false).decision, 'give_up')
    for (let count = 0; count < 2; count += 1) plan(true)
    assert.equal(plan(true).because, 'crash_loop')
  })
})
