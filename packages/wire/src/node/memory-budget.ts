/**
 * The memory that all requests of a service may hold together: request bodies, and in the gateway held answers and what is remembered
 * to heal them.
 * Each request takes from the budget what its data really costs, in a share of its own.
 *
 * I1  The shares together never hold more than the budget.
 * I2  A closed share holds nothing, and nothing can be added to it.
 */
import assert from 'node:assert/strict'
import { Fault } from '@breakfall/faults'

/** What an object, a list entry or a string costs V8 besides its characters. Small objects were measured at 60 to 120 bytes. */
export const ENTRY_BYTES = 100

export class MemoryBudget {
  readonly bytesMax: number
  #bytes = 0

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax
  }

  /** What all shares hold. */
  get bytes(): number {
    return this.#bytes
  }

  /** For one request. Whoever opens it closes it. */
  open(): MemoryShare {
    return new MemoryShare({
      take: (bytes) => {
        if (this.#bytes + bytes > this.bytesMax) return false // I1
        this.#bytes += bytes
        return true
      },
      give: (bytes) => {
        this.#bytes -= bytes
      },
    })
  }
}

type Purse = { readonly take: (bytes: number) => boolean; readonly give: (bytes: number) => void }

/** What one request holds. */
export class MemoryShare {
  readonly #budget: Purse
  #bytes = 0
  #isClosed = false

  constructor(budget: Purse) {
    this.#budget = budget
  }

  get bytes(): number {
    return this.#bytes
  }

  /** False if the budget has not enough left. Then nothing was taken: hold less, or refuse. */
  take(bytes: number): boolean {
    if (this.#isClosed || !this.#budget.take(bytes)) return false // I2
    this.#bytes += bytes
    return true
  }

  /** These bytes are not held any more. */
  give(bytes: number): void {
    if (this.#isClosed) return // closing gave all of it
    assert(bytes <= this.#bytes, 'a share gives back only what it took')
    this.#bytes -= bytes
    this.#budget.give(bytes)
  }

  /** A share within this one, for what is given back earlier. */
  part(): MemoryShare {
    return new MemoryShare({ take: (bytes) => this.take(bytes), give: (bytes) => this.give(bytes) })
  }

  /** Gives everything back. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#budget.give(this.#bytes)
    this.#bytes = 0
  }
}

/** Takes from the share, or throws what tells the client to come back. */
export const taking =
  (share: MemoryShare) =>
  (bytes: number): void => {
    if (share.take(bytes)) return
    throw new Fault('quota_exceeded', {
      facts: { limit: 'the memory for all requests together' },
      message: { advice: 'Retry when other requests have ended. A gateway can be given more: limits.memoryBytesMax.' },
      errorRaw: `no room for ${bytes} more bytes`,
    })
  }

/** For callers without a budget, such as one program's own `resilientFetch`. */
export const unboundedShare = (): MemoryShare => new MemoryBudget(Number.POSITIVE_INFINITY).open()
