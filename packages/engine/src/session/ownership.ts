/**
 * What it means to own a session in a store that daemons share: when it is given up, and when its owner must stand still.
 * In a store of its own, a daemon owns everything for ever, and none of this happens.
 *
 * I1  Only a turn that is worked on has an owner. Idle and parked sessions have none: the append that ends or parks the turn also
 *     gives the session up.
 * I2  Nothing with an effect outside starts while the lease may have run out.
 */
import { Fault, type Policy } from '@breakfall/faults'
import type { Clock } from '../clock.ts'
import type { Lease } from '../store/sharing.ts'
import type { Release } from '../store/store.ts'
import type { SessionFold } from '../turn/state.ts'
import { deadlineAt } from '../turn/next.ts'
import { dueAt, unownedProbeAt, waitOfTurn } from '../turn/wait.ts'

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
  const { parked } = turn
  if (parked === null || facts.isCancelled) return null
  const wait = waitOfTurn(turn, parked, facts.policy)
  const probeAt = unownedProbeAt(wait, parked.since, facts.now)
  const { at } = dueAt(wait, facts.now, { deadline: deadlineAt(turn, facts.policy), probeAt })
  const isAny = parked.fault.category === 'runner_not_available'
  const runner = `runner:${(isAny ? null : facts.runnerId) ?? 'any'}`
  const waitFor = wait.for === 'runner' ? runner : wait.for === 'config' ? 'config' : null
  return { wakeAt: Number.isFinite(at) ? new Date(at).toISOString() : null, waitFor }
}

/** Closed while the lease may run out. */
export class LeaseGate {
  readonly #lease: Lease
  readonly #clock: Pick<Clock, 'after'>

  constructor(lease: Lease, clock: Pick<Clock, 'after'>) {
    this.#lease = lease
    this.#clock = clock
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
        timer.cancel()
        signal.removeEventListener('abort', onAbort)
        resolve(change)
      }
      const onAbort = (): void => done('abort')
      const timer = this.#clock.after(LOOK_MS, () => done('look'))
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
