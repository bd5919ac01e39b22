/** Moves a turn along with its run: a daemon that replaces a lost one is asked to adopt the turn. */
import type { DaemonAddress } from '@breakfall/client'
import { isFault } from '@breakfall/faults'
import type { ProviderGiven, Turn } from '@breakfall/wire'
import { oneShotClient } from '../../daemon/find.ts'

export type AdoptionOptions = {
  readonly find: () => Promise<DaemonAddress>
  /** A new daemon has forgotten the key. Undefined if this run has none. */
  readonly keyFor: (turn: Turn) => ProviderGiven | undefined
}

export class TurnAdoption {
  readonly #options: AdoptionOptions
  #url: string
  #turnId: string | undefined
  #isDue = false

  constructor(address: DaemonAddress, options: AdoptionOptions) {
    this.#url = address.url
    this.#options = options
  }

  /** The turn that the next daemon adopts. */
  follow(turnId: string): void {
    this.#turnId = turnId
  }

  /** The daemon's current address. A new daemon is asked to adopt the turn. */
  async locate(): Promise<DaemonAddress> {
    const address = await this.#options.find()
    this.#isDue ||= address.url !== this.#url
    this.#url = address.url
    if (!this.#isDue || this.#turnId === undefined) return address
    try {
      await this.#adopt(address, this.#turnId)
      this.#isDue = false
    } catch (thrown) {
      if (!isFault(thrown)) throw thrown // the caller's next attempt meets the same fault, and decides about it
    }
    return address
  }

  async #adopt(address: DaemonAddress, turnId: string): Promise<void> {
    const client = oneShotClient(address)
    const turn = await client.turn(turnId)
    if (turn['live'] === false) await client.resume(turnId, { provider: this.#options.keyFor(turn) })
  }
}
