/**
 * The requests that a child is working on. When the child fails, each of them fails once, with the reason.
 *
 * I1  A request ends exactly once: with `done` or with one fault.
 * I2  A request that was sent may have taken effect. Its outcome is unknown, unless the caller declared it pure.
 * I3  Silence is counted in ticks during which this process was awake: a suspended laptop does not make requests look hung.
 */
import { randomUUID } from 'node:crypto'
import type { Fault, SideEffects } from '@breakfall/faults'

export type RequestInit = {
  readonly id?: string
  /** Doing it twice does no harm, as with a model's answer. Its outcome is then never unknown. */
  readonly pure?: boolean
}

export type InFlightRequest = Disposable & {
  readonly id: string
  /** Aborted, with the fault as the reason, when the child fails. */
  readonly signal: AbortSignal
  /** Resolves with the fault if the child fails. Stays pending if the request ends well. */
  readonly failed: Promise<Fault>
  /** The request was sent to the child. */
  readonly sent: () => void
  /** The child did something for this request. */
  readonly progress: () => void
  /** The caller is not waiting for the child, for example while it reads slowly. Silence counts again from the next `progress`. */
  readonly hold: () => void
  /** The request is over, successful or not. */
  readonly done: () => void
}

export type FaultFor = (request: { readonly id: string; readonly sideEffects: SideEffects }) => Fault

export class InFlight {
  readonly #open = new Map<string, Entry>()
  readonly #onChange: () => void
  readonly #now: () => number
  /** When the child last did something for any request, or was last asked. */
  #heardAtMs = 0

  constructor(onChange: () => void, now: () => number) {
    this.#onChange = onChange
    this.#now = now
  }

  get ids(): readonly string[] {
    return [...this.#open.keys()]
  }

  get size(): number {
    return this.#open.size
  }

  open(init: RequestInit): InFlightRequest {
    const id = this.#freeId(init.id)
    const entry: Entry = { id, pure: init.pure === true, sent: false, isHeld: false, silentTicks: 0, ...settleable() }
    const heard = (): void => {
      entry.silentTicks = 0
      this.#heardAtMs = this.#now()
    }
    const done = (): void => {
      if (this.#open.get(id) !== entry) return // I1
      this.#open.delete(id)
      this.#onChange()
    }
    this.#open.set(id, entry)
    heard()
    this.#onChange()
    return {
      id,
      signal: entry.controller.signal,
      failed: entry.failed,
      sent: () => {
        entry.sent = true
        heard()
      },
      progress: () => {
        heard()
        entry.isHeld = false
      },
      hold: () => {
        entry.isHeld = true
      },
      done,
      [Symbol.dispose]: done,
    }
  }

  /** Since the child last did something for any request. Undefined if no request waits for it. */
  get quietMs(): number | undefined {
    const isWaitedFor = [...this.#open.values()].some((entry) => !entry.isHeld)
    return isWaitedFor ? this.#now() - this.#heardAtMs : undefined
  }

  /** Fails and removes all of them. */
  failAll(faultFor: FaultFor): void {
    const entries = [...this.#open.values()]
    this.#open.clear() // I1: no request fails twice, even if a listener opens or ends one now
    for (const entry of entries) {
      const fault = faultFor({ id: entry.id, sideEffects: entry.sent && !entry.pure ? 'unknown' : 'none' }) // I2: what was sent may have taken effect
      entry.fail(fault)
      entry.controller.abort(fault)
    }
  }

  /** Counts one silent tick for each request. Returns the first request that was silent for too long. */
  tick(ticksMax: number): string | undefined {
    for (const entry of this.#open.values()) {
      if (entry.isHeld) continue
      entry.silentTicks += 1 // I3: only while we are awake
      if (entry.silentTicks >= ticksMax) return entry.id
    }
    return undefined
  }

  #freeId(wanted: string | undefined): string {
    return wanted === undefined || this.#open.has(wanted) ? randomUUID() : wanted
  }
}

// ---- details ----

type Entry = {
  readonly id: string
  readonly pure: boolean
  readonly controller: AbortController
  readonly failed: Promise<Fault>
  readonly fail: (fault: Fault) => void
  sent: boolean
  isHeld: boolean
  silentTicks: number
}

function settleable(): Pick<Entry, 'controller' | 'failed' | 'fail'> {
  const { promise, resolve } = Promise.withResolvers<Fault>()
  return { controller: new AbortController(), failed: promise, fail: resolve }
}
