/**
 * What it means to own a session in a store that daemons share: when it is given up, and when its owner must stand still.
 * In a store of its own, a daemon owns everything for ever, and none of this happens.
 *
 * I1  Only a turn that is worked on has an owner. Idle and parked sessions have none: the append that ends or parks the turn also
 *     gives the session up.
 * I2  Nothing with an effect outside starts while the lease may have run out.
 */
import { Fault, type Policy } from '@breakfall/faults'
import type { Lease } from '../store/sharing.ts'
import type { Release } from '../store/store.ts'
import { deadlineAt } from '../turn/next.ts'
import type { SessionFold, TurnFold } from '../turn/state.ts'
import { wakeSource } from './wake.ts'

/** When a session that is given up in this state is due again. Null: it is worked on, so it is not given up. Pure. */
export function releaseOf(
  { turn, queue }: SessionFold,
  facts: {
    readonly policy: Policy
    readonly runnerId: string | null
    readonly isCancelled: boolean
    readonly now: number
  },
): Release | null {
  if (turn === null) return queue.length === 0 ? { wakeAt: null, waitFor: null } : null
  if (turn.parked === null || facts.isCancelled) return null
  const source = wakeSource(turn.parked.fault)
  const now = new Date(facts.now).toISOString()
  if (source === 'restart') return { wakeAt: now, waitFor: null }
  const isAny = turn.parked.fault.category === 'runner_not_available'
  const runner = `runner:${(isAny ? null : facts.runnerId) ?? 'any'}`
  const waitFor = source === 'runner' ? runner : source === 'config' ? 'config' : null
  return { wakeAt: earliest(turn, facts.policy, source, facts.now), waitFor }
}

/** Closed while the lease may run out. */
export class Gate {
  readonly #lease: Lease

  constructor(lease: Lease) {
    this.#lease = lease
  }

  get isOpen(): boolean {
    return this.#lease.isHeld()
  }

  /** Resolves while the lease is held (I2). Rejects if it is lost. */
  async pass(signal: AbortSignal): Promise<void> {
    while (!this.#lease.isHeld()) {
      if (signal.aborted) throw signal.reason
      const change = await this.#next(signal)
      if (change === 'lost') throw new Fault('lease_lost', { boundary: 'journal', errorRaw: 'the lease ran out' })
    }
  }

  /** The result of the work, which only the caller stops waiting for when the lease may run out: the database does not answer. */
  async whileOpen<T>(work: Promise<T>, sideEffects: 'none' | 'unknown'): Promise<T> {
    const over = new AbortController()
    const closed = async (): Promise<T> => {
      while (this.#lease.isHeld() && !over.signal.aborted) await this.#next(over.signal)
      if (over.signal.aborted) return work
      throw unanswered(sideEffects)
    }
    try {
      return await Promise.race([work, closed()])
    } finally {
      over.abort()
    }
  }

  #next(signal: AbortSignal): Promise<string> {
    return new Promise((resolve) => {
      const done = (change: string): void => {
        unlisten()
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
        resolve(change)
      }
      const onAbort = (): void => done('abort')
      const timer = setTimeout(() => done('look'), LOOK_MS)
      const unlisten = this.#lease.on(done)
      signal.addEventListener('abort', onAbort, { once: true })
    })
  }
}

// ---- details ----

const unanswered = (sideEffects: 'none' | 'unknown'): Fault =>
  new Fault('journal_unreachable', {
    boundary: 'journal',
    sideEffects,
    retryAfterMs: 1_000,
    message: {
      happened: "The journal's database stopped answering before this request was done.",
      action: 'It may still take effect when the database is back.',
      advice: 'Send it again, here or to another daemon. A prompt with the same Idempotency-Key is accepted once.',
    },
  })

const LOOK_MS = 250
/** Between two looks at what a parked turn waits for, if nothing announces it. */
const PROBE_MS = { runner: 30_000, model: 15_000, journal: 5_000, config: 60_000, time: 60_000 } as const

/** A runner may have registered between the failed call and the park, when there was no parked turn to wake yet. */
const FIRST_LOOK_MS = 1_000
const NEW_MS = 900 // less than FIRST_LOOK_MS: only one such look

function earliest(turn: TurnFold, policy: Policy, source: ReturnType<typeof wakeSource>, now: number): string | null {
  const { parked } = turn
  if (parked === null) return null
  const isNew = now - Date.parse(parked.since) < NEW_MS
  const times = [
    parked.resumeAt === null ? null : Date.parse(parked.resumeAt),
    source === 'person' ? null : Date.parse(parked.since) + policy.parkMsMax - turn.answer.budget.parkedMs,
    deadlineAt(turn, policy),
    source === 'person' || source === 'restart' || parked.resumeAt !== null
      ? null
      : now + (isNew && source === 'runner' ? FIRST_LOOK_MS : PROBE_MS[source]),
  ].filter((time) => time !== null)
  return times.length === 0 ? null : new Date(Math.min(...times)).toISOString()
}
