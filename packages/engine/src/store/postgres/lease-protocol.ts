/**
 * Between the store and the thread that renews its lease. The time of the last renewal is in shared memory: a main thread that was busy
 * for seconds knows at once that its lease was renewed meanwhile.
 */
import type { MessagePort } from 'node:worker_threads'

export type LeaseStart = {
  readonly url: string
  readonly leaseMs: number
  readonly shared: SharedArrayBuffer
  readonly port: MessagePort
}

export type Renewed = {
  /** The database's time and what it took to hear it. */
  readonly now: number
  readonly roundTripMs: number
  /** By the monotonic clock. */
  readonly receivedAt: number
  readonly state: string
  readonly live: number
  readonly held: number
  readonly era: number
}

export type LeaseMessage =
  | { readonly kind: 'ready' } // it runs, and is connected if the server answers
  | { readonly kind: 'renewed'; readonly renewed: Renewed }
  | { readonly kind: 'dead' } // another daemon declared this one dead: final
  | { readonly kind: 'freed'; readonly sessions: number } // sessions of a dead daemon are due

/** `boot`: registered under this id; renew it from now on. */
export type ToLeaseThread = { readonly kind: 'boot'; readonly bootId: string } | { readonly kind: 'end' }

/**
 * When the last good renewal was sent, by both clocks (a machine that sleeps stops the monotonic one, a correction moves the other),
 * and when the main thread last ran.
 */
export class RenewalTimes {
  readonly #times: Float64Array

  constructor(shared: SharedArrayBuffer) {
    this.#times = new Float64Array(shared)
  }

  static create(): SharedArrayBuffer {
    return new SharedArrayBuffer(3 * Float64Array.BYTES_PER_ELEMENT)
  }

  renewed(sent: Times): void {
    this.#times[0] = sent.monotonic
    this.#times[1] = sent.wall
  }

  /** By the clock that says more. */
  sinceRenewalMs(now: Times): number {
    return Math.max(now.monotonic - (this.#times[0] ?? 0), now.wall - (this.#times[1] ?? 0))
  }

  tick(now: Times): void {
    this.#times[2] = now.monotonic
  }

  sinceTickMs(now: Times): number {
    return now.monotonic - (this.#times[2] ?? 0)
  }
}

/**
 * Whether this daemon may declare others dead. They renew as often as it does, three times a lease. So if an outage was long enough to
 * end the lease of another daemon, it held up our own renewals for two thirds of a lease.
 */
export class Punctuality {
  readonly #leaseMs: number
  #onTimeSince: number

  constructor(leaseMs: number, now: number) {
    this.#leaseMs = leaseMs
    this.#onTimeSince = now
  }

  /** `gapMs`: from when the last good renewal was sent to the answer to this one. */
  renewed(gapMs: number, now: number): void {
    if (gapMs > (this.#leaseMs * 2) / 3) this.#onTimeSince = now
  }

  /** After a whole lease in time: by then every daemon that lives has renewed. */
  mayReap(now: number): boolean {
    return now - this.#onTimeSince >= this.#leaseMs
  }
}

export type Times = { readonly monotonic: number; readonly wall: number }
