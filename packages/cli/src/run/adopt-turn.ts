/** Moves a turn along with its run: a daemon that replaces a lost one is asked to adopt the turn. */
import type { DaemonAddress } from '@breakfall/client'
import { isFault } from '@breakfall/faults'
import { oneShotClient } from '../daemon/find.ts'

export class TurnAdoption {
  readonly #find: () => Promise<DaemonAddress>
  #url: string
  #turnId: string | undefined
  #isDue = false

  constructor(address: DaemonAddress, find: () => Promise<DaemonAddress>) {
    this.#url = address.url
    this.#find = find
  }

  /** The turn that the next daemon adopts. */
  follow(turnId: string): void {
    this.#turnId = turnId
  }

  /** The daemon's current address. A new daemon is asked to adopt the turn. */
  async locate(): Promise<DaemonAddress> {
    const address = await this.#find()
    this.#isDue ||= address.url !== this.#url
    this.#url = address.url
    if (!this.#isDue || this.#turnId === undefined) return address
    try {
      await adopt(address, this.#turnId)
      this.#isDue = false
    } catch (thrown) {
      if (!isFault(thrown)) throw thrown // the caller's next attempt meets the same fault, and decides about it
    }
    return address
  }
}

// ---- details ----

async function adopt(address: DaemonAddress, turnId: string): Promise<void> {
  const client = oneShotClient(address)
  const turn = await client.turn(turnId)
  if (turn['live'] === false) await client.resume(turnId)
}
