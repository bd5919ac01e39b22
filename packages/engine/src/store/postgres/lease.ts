/**
 * This daemon's lease, as the rest of the process sees it.
 *
 * I1  Suspended before it can have run out: counted from before the last good renewal was sent, by the clock that says more.
 * I2  Dead is final: after that the daemon is a new one, with a new `bootId`, and owns nothing.
 */
import { newId } from '@breakfall/wire/node'
import { extname } from 'node:path'
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import type { DaemonFacts, Lease, LeaseChange } from '../sharing.ts'
import { numberIn, type Row, textIn } from '../sqlite-statements.ts'
import { type FleetClock, times } from './clock.ts'
import {
  type LeaseMessage,
  type LeaseStart,
  RenewalTimes,
  type Renewed,
  type Times,
  type ToLeaseThread,
} from './lease-protocol.ts'
import { ANNOUNCE, DRAIN, END, REGISTER } from './lease-sql.ts'
import type { Pool } from './pool.ts'

export type LeaseOptions = {
  readonly url: string
  readonly name: string
  readonly version: string
  readonly leaseMs: number
  readonly pool: Pool
  readonly clock: FleetClock
  /** Sessions of a dead daemon are due now. */
  readonly onFreed: () => void
  readonly onEra: (era: number) => void
  /** A new daemon of this name has started; the next one from the same folder declares it dead. */
  readonly onBoot: (bootId: string) => void
}

const MARGIN = 0.2 // of the lease: 3 of 15 s, for what is under way to come to an end
const TICKS_PER_LEASE = 15

export class DaemonLease implements Lease {
  readonly isEndless = false
  readonly name: string
  #bootId = newId()
  #fleet = { live: 1, held: 0 }
  #facts: DaemonFacts = {}
  #isSuspended = false
  #isDraining = false
  #isDead = false
  #isRegistering = false
  #isClosed = false
  readonly #options: LeaseOptions
  readonly #times: RenewalTimes
  readonly #listeners = new Set<(change: LeaseChange) => void>()
  readonly #timer: NodeJS.Timeout
  readonly #worker: Worker
  readonly #port: MessagePort
  readonly #ready: Promise<void>

  /** Registered, and renewed from now on. */
  static async start(options: LeaseOptions, previous: string | undefined): Promise<DaemonLease> {
    if (previous !== undefined) await options.pool.query(END, [previous])
    const lease = new DaemonLease(options)
    try {
      await lease.#ready
      await lease.#register()
    } catch (error) {
      await lease.close()
      throw error
    }
    return lease
  }

  constructor(options: LeaseOptions) {
    this.#options = options
    this.name = options.name
    const shared = RenewalTimes.create()
    this.#times = new RenewalTimes(shared)
    this.#times.renewed(times())
    this.#times.tick(times())
    const { port1, port2 } = new MessageChannel()
    this.#port = port1
    const { url, leaseMs } = options
    this.#worker = new Worker(new URL(`./lease-worker${extname(import.meta.filename)}`, import.meta.url), {
      workerData: { url, leaseMs, shared, port: port2 } satisfies LeaseStart,
      transferList: [port2],
    })
    this.#worker.on('error', () => undefined) // not renewed any more: suspended, then lost
    this.#ready = new Promise((resolve, reject) => {
      port1.on('message', (message: LeaseMessage) => {
        if (message.kind === 'ready') resolve()
        else this.#hear(message)
      })
      this.#worker.once('error', reject)
    })
    this.#timer = setInterval(() => this.#tick(), options.leaseMs / TICKS_PER_LEASE)
    this.#timer.unref()
  }

  get bootId(): string {
    return this.#bootId
  }

  get fleet(): { readonly live: number; readonly held: number } {
    return this.#fleet
  }

  isHeld(): boolean {
    return !this.#isDead && !this.#isClosed && this.remainingMs() > this.#options.leaseMs * MARGIN // I1
  }

  remainingMs(): number {
    return Math.max(this.#options.leaseMs - this.#times.sinceRenewalMs(times()), 0)
  }

  on(listener: (change: LeaseChange) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async announce(facts: DaemonFacts): Promise<void> {
    this.#facts = { ...this.#facts, ...facts }
    const { url = null, configHash = null, places = null } = facts
    await this.#options.pool.query(ANNOUNCE, [this.#bootId, url, configHash, places])
  }

  async drain(): Promise<void> {
    this.#isDraining = true
    await this.#options.pool.query(DRAIN, [this.#bootId])
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    this.#send({ kind: 'end' })
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve))
    await Promise.race([exited, new Promise((resolve) => setTimeout(resolve, EXIT_MS).unref())])
    await this.#worker.terminate()
    this.#port.close()
  }

  // ---- details, in the order they are used above ----

  async #register(): Promise<void> {
    const { name, version, leaseMs, pool } = this.#options
    const { url = null, configHash = '', places = PLACES_MAX } = this.#facts
    this.#options.onBoot(this.#bootId)
    const sent = times()
    const firstMs = Math.max(leaseMs, FIRST_LEASE_MS)
    const [row] = await pool.query(REGISTER, [this.#bootId, name, version, url, configHash, places, firstMs])
    if (row !== undefined) this.#learn(row, sent)
    if (this.#isDraining) await pool.query(DRAIN, [this.#bootId])
    this.#times.renewed(sent)
    this.#send({ kind: 'boot', bootId: this.#bootId })
  }

  /** Before anything is written with a time: this machine's clock may be wrong. */
  #learn(row: Row, sent: Times): void {
    const receivedAt = times().monotonic
    const now = Date.parse(textIn(row, 'now'))
    this.#options.clock.learn({ now, receivedAt, roundTripMs: receivedAt - sent.monotonic })
    this.#options.onEra(numberIn(row, 'era'))
  }

  #hear(message: LeaseMessage): void {
    if (this.#isClosed) return
    if (message.kind === 'freed') this.#options.onFreed()
    else if (message.kind === 'dead') this.#startAgain()
    else if (message.kind === 'renewed') this.#renewed(message.renewed)
  }

  #renewed(renewed: Renewed): void {
    const { live, held, state, era } = renewed
    this.#options.clock.learn(renewed)
    this.#fleet = { live: Math.max(live, 1), held }
    this.#options.onEra(era)
    if (state === 'draining' && !this.#isDraining) {
      this.#isDraining = true
      this.#emit('drain')
    }
    this.#tick()
  }

  #tick(): void {
    this.#times.tick(times())
    if (this.#isDead) return void this.#comeBack()
    if (this.#isSuspended !== this.isHeld()) return
    this.#isSuspended = !this.#isSuspended
    this.#emit(this.#isSuspended ? 'suspend' : 'resume')
  }

  /** I2 */
  #startAgain(): void {
    if (this.#isDead) return
    this.#isDead = true
    this.#emit('lost')
    this.#bootId = newId()
    void this.#comeBack()
  }

  async #comeBack(): Promise<void> {
    if (this.#isRegistering || this.#isClosed) return
    this.#isRegistering = true
    try {
      await this.#register()
      this.#isDead = false
      this.#isSuspended = true // until the next tick
    } catch {
      // Away, for ten seconds, or refused at once: the next tick tries again.
    } finally {
      this.#isRegistering = false
    }
  }

  #emit(change: LeaseChange): void {
    for (const listener of this.#listeners) listener(change)
  }

  #send(message: ToLeaseThread): void {
    this.#port.postMessage(message)
  }
}

// ---- details ----

const PLACES_MAX = 1_000_000
const EXIT_MS = 1_000
/** On a busy machine the thread takes seconds to start: until its first renewal, no other daemon may declare this one dead. */
const FIRST_LEASE_MS = 15_000
