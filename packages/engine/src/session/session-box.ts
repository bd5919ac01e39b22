/** The box of a session as this process last saw it, and what it still owes it. */
import type { Box } from '@breakfall/wire'

export class SessionBox {
  #seen: Box | null = null
  /** An earlier owner left a call open, or released the box: its requests may still be on their way to the runner. */
  #needsFencing: boolean
  /** So may a release of this process. */
  #needsEpoch = false
  #checkpointedTurn: string | null = null
  #release: AbortController | null = null

  constructor(needsFencing: boolean) {
    this.#needsFencing = needsFencing
  }

  /** Null if this process has not seen it, or it is gone. */
  get seen(): Box | null {
    return this.#seen
  }

  attach(box: Box): Box {
    this.#seen = box
    return box
  }

  /** The runner has lost it, or releases it. */
  detach(): void {
    this.#seen = null
  }

  /** The next box is at another runner, where no earlier owner has sent anything. */
  moved(): void {
    this.detach()
    this.#needsFencing = false
  }

  /** A release that was not answered would stop the box during the next turn: `raise` gets an epoch that keeps it out. */
  async outdateRelease(raise: () => Promise<void>): Promise<void> {
    if (!this.#needsEpoch) return
    await raise()
    this.#needsEpoch = false
    this.#needsFencing = true
  }

  /** A new owner fences the box before it decides anything about a call that an earlier owner left open. */
  async fence(own: () => Promise<unknown>): Promise<void> {
    if (!this.#needsFencing) return
    await own()
    this.#needsFencing = false
  }

  /** True once for each turn: whoever gets it asks for the checkpoint. */
  takesCheckpoint(turnId: string): boolean {
    if (this.#checkpointedTurn === turnId) return false
    this.#checkpointedTurn = turnId
    return true
  }

  /** Releases it, unless `keep` interrupts that. */
  async releasing<T>(release: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const interrupt = new AbortController()
    this.#release = interrupt
    try {
      return await release(interrupt.signal)
    } catch (thrown) {
      this.#needsEpoch = true
      throw thrown
    } finally {
      this.#release = null
    }
  }

  /** A prompt needs it again. */
  keep(): void {
    this.#release?.abort()
  }
}
