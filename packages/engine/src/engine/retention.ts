/**
 * Runs retention on a schedule: a bounded pass at a time, at the start and then every minute, or sooner while there is more. Each
 * pass reads the configuration, so a changed limit takes effect with the next pass.
 */
import type { ConfigReader } from '../live-config.ts'
import type { RetentionConfig } from '../options.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Observer } from './observer.ts'
import type { Pruning } from './pruning.ts'

type RetentionParts = {
  readonly pruning: Pruning
  /** Read again for each pass. */
  readonly config: ConfigReader
  readonly clock: Clock
  readonly observer: Observer
  readonly lifecycle: Lifecycle
  readonly everyMs: number
}

export class Retention {
  readonly #parts: RetentionParts
  #timer: Timer | undefined
  #pass: Promise<void> = Promise.resolve()
  #created = 0

  constructor(parts: RetentionParts) {
    this.#parts = parts
    parts.observer.created.add(() => this.#countCreated())
  }

  start(): void {
    this.#runIn(0)
  }

  /** A session was created: a busy daemon does not wait for the next minute. */
  #countCreated(): void {
    this.#created += 1
    if (this.#created % CREATED_PER_PASS === 0) this.#runIn(0)
  }

  async close(): Promise<void> {
    this.#timer?.cancel()
    await this.#pass
  }

  #runIn(ms: number): void {
    if (this.#parts.lifecycle.isClosing) return
    this.#timer?.cancel()
    const pass = (): void => {
      this.#pass = this.#pass.then(() => this.#run())
    }
    this.#timer = this.#parts.clock.after(ms, pass).unref()
  }

  async #run(): Promise<void> {
    if (this.#parts.lifecycle.isClosing) return
    let hasMore = false
    try {
      const limits = (await this.#parts.config.read()).retention ?? {}
      if (isOn(limits)) hasMore = await this.#parts.pruning.retain(limits)
    } catch (thrown) {
      this.#parts.observer.log.warn({ err: thrown }, 'retention failed; it will run again')
    }
    this.#runIn(hasMore ? MORE_MS : this.#parts.everyMs)
  }
}

// ---- details ----

const isOn = (limits: RetentionConfig): boolean => Object.values(limits).some((limit) => limit !== undefined)

const CREATED_PER_PASS = 64
const MORE_MS = 100 // turns come first
