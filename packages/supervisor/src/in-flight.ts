/**
 * Requests that a child is working on. When it ends, each of them is told once, with the reason.
 *
 * I1  A request ends exactly once: by `done`, or by one fault.
 * I2  What was sent may have had its effect; unless the caller said that there is none, the outcome is unknown.
 * I3  Silence is counted in ticks that we really lived through, so that a sleeping laptop makes no mass of hung requests.
 */
import { randomUUID } from 'node:crypto'
import type { Fault, SideEffects } from '@breakfall/faults'

export type RequestInit = {
  readonly id?: string
  /** True where doing it twice does no harm, as with a model's answer. Its outcome is then never unknown. */
  readonly pure?: boolean
}

export type InFlightRequest = Disposable & {
  readonly id: string
  /** Aborted with the fault as its reason when the child fails. */
  readonly signal: AbortSignal
  /** The fault, if one comes. Stays pending for a request that ends well. */
  readonly failed: Promise<Fault>
  /** The request has left us. */
  readonly sent: () => void
  /** A sign of life of this request. */
  readonly progress: () => void
  /** Nobody waits for the child now, such as while its answer is being read slowly. Its silence counts again from the next `progress`. */
  readonly hold: () => void
  /** It is over, well or not, and the child has nothing more to do with it. */
  readonly done: () => void
}

export type FaultFor = (request: { readonly id: string; readonly sideEffects: SideEffects }) => Fault

export class InFlight {
  readonly #open = new Map<string, Entry>()
  readonly #onChange: () => void

  constructor(onChange: () => void) {
    this.#onChange = onChange
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
    const done = (): void => {
      if (this.#open.get(id) !== entry) return // I1
      this.#open.delete(id)
      this.#onChange()
    }
    this.#open.set(id, entry)
    this.#onChange()
    return {
      id,
      signal: entry.controller.signal,
      failed: entry.failed,
      sent: () => {
        entry.sent = true
        entry.silentTicks = 0
      },
      progress: () => {
        entry.silentTicks = 0
        entry.isHeld = false
      },
      hold: () => {
        entry.isHeld = true
      },
      done,
      [Symbol.dispose]: done,
    }
  }

  /** Tells all of them, and there are none any more. */
  failAll(faultFor: FaultFor): void {
    const entries = [...this.#open.values()]
    this.#open.clear() // I1: whatever a listener does now, nobody is told twice
    for (const entry of entries) {
      const fault = faultFor({ id: entry.id, sideEffects: entry.sent && !entry.pure ? 'unknown' : 'none' }) // I2
      entry.fail(fault)
      entry.controller.abort(fault)
    }
  }

  /** One tick of silence for each. Returns the first that has been silent for too many. */
  tick(ticksMax: number): string | undefined {
    for (const entry of this.#open.values()) {
      if (entry.isHeld) continue
      entry.silentTicks += 1 // I3
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
