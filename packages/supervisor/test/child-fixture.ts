// Shared by the tests of this package: fixture programs, process checks, waits, clocks.
import assert from 'node:assert/strict'
import path from 'node:path'
import { isFault, type Fault } from '@breakfall/faults'
import { type Clock, systemClock } from '../src/clock.ts'
import type { ChildState, Supervised } from '../src/index.ts'
import { readProcess } from '../src/platform.ts'

export const program = (name: string): string => path.join(import.meta.dirname, 'programs', name)

/** Alive, and not a zombie. */
export function isAlive(pid: number): boolean {
  const state = readProcess(pid)?.state
  return state !== undefined && state !== 'Z' && state !== 'X'
}

/** Resolves with the state as soon as the child is in it. */
export async function untilState<Status extends ChildState['status']>(
  child: Supervised,
  status: Status,
): Promise<Extract<ChildState, { status: Status }>> {
  const is = (state: ChildState): state is Extract<ChildState, { status: Status }> => state.status === status
  if (is(child.state)) return child.state
  return new Promise((resolve) => {
    const off = child.on((event) => {
      if (event.type !== 'state' || !is(event.state)) return
      off()
      resolve(event.state)
    })
  })
}

/** The fault that the promise rejects with. */
export async function faultBy(promise: Promise<unknown>): Promise<Fault> {
  try {
    await promise
  } catch (error) {
    assert.ok(isFault(error), `a Fault, not ${String(error)}`)
    return error
  }
  return assert.fail('it was expected to reject')
}

/** Polls until the condition holds, for things another process does. The limit only ends a test that has already failed. */
export async function eventually(holds: () => boolean, what: string, limitMs = 10_000): Promise<void> {
  const until = performance.now() + limitMs
  while (!holds()) {
    assert.ok(performance.now() < until, `${what} did not happen`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** A clock that only moves when told. `advance` runs every timer on the way; `jump` skips the time, as a suspended laptop does. */
export function manualClock(): Clock & { readonly advance: (ms: number) => void; readonly jump: (ms: number) => void } {
  let now = 0
  const timers = new Set<{ readonly at: number; readonly call: () => void }>()
  const nextBy = (until: number): { readonly at: number; readonly call: () => void } | undefined =>
    [...timers].filter((timer) => timer.at <= until).toSorted((a, b) => a.at - b.at)[0]
  return {
    now: () => now,
    epoch: () => now,
    dice: () => 1,
    after: (ms, then) => {
      const timer = { at: now + ms, call: then }
      timers.add(timer)
      return () => timers.delete(timer)
    },
    advance: (ms) => {
      const until = now + ms
      for (let timer = nextBy(until); timer !== undefined; timer = nextBy(until)) {
        timers.delete(timer)
        now = Math.max(now, timer.at)
        timer.call()
      }
      now = until
    },
    jump: (ms) => {
      now += ms
      for (const timer of Array.from(timers)) {
        if (timer.at <= now && timers.delete(timer)) timer.call()
      }
    },
  }
}

/** The system clock, except that timers of these lengths only move when told. */
export function partlyManualClock(...lengthsMs: readonly number[]): Clock & { readonly advance: (ms: number) => void } {
  const hand = manualClock()
  const after: Clock['after'] = (ms, then) => (lengthsMs.includes(ms) ? hand : systemClock).after(ms, then)
  return { ...systemClock, after, advance: hand.advance }
}

/** A clock that only moves between two probes, by a fixed amount, and not before the child is up. */
export function probeDrivenClock(everyMs: number, passesMs: number, up: Promise<unknown> = Promise.resolve()): Clock {
  const clock = manualClock()
  return {
    ...clock,
    after: (ms, then) => {
      if (ms !== everyMs) return clock.after(ms, then)
      const waiting = new AbortController()
      void up.then(() => {
        clock.advance(passesMs)
        if (!waiting.signal.aborted) then()
      })
      return () => waiting.abort()
    },
  }
}

/** Short limits for tests, in the same order as the defaults. */
export const QUICK = { backoffMs: 1, stdinMs: 200, termMs: 400, drainMs: 500, fatalMs: 50 } as const
