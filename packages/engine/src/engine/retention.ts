/**
 * Runs retention on a schedule: a bounded pass at a time, at the start and then every minute, or sooner while there is more. Each
 * pass reads the configuration, so a changed limit takes effect with the next pass.
 */
import type { RetentionConfig } from '../options.ts'
import type { Ports } from './ports.ts'
import type { Pruning } from './pruning.ts'

export class Retention {
  readonly #ports: Ports
  readonly #pruning: Pruning
  readonly #read: () => Promise<RetentionConfig | undefined>
  #timer: NodeJS.Timeout | undefined
  #pass: Promise<void> = Promise.resolve()
  #created = 0

  constructor(ports: Ports, pruning: Pruning, read: () => Promise<RetentionConfig | undefined>) {
    this.#ports = ports
    this.#pruning = pruning
    this.#read = read
    ports.observer.created.add(() => this.#countCreated())
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
    clearTimeout(this.#timer)
    await this.#pass
  }

  #runIn(ms: number): void {
    if (this.#ports.lifecycle.isClosing) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#pass = this.#pass.then(() => this.#run())
    }, ms)
    this.#timer.unref()
  }

  async #run(): Promise<void> {
    if (this.#ports.lifecycle.isClosing) return
    let hasMore = false
    try {
      const limits = (await this.#read()) ?? {}
      if (isOn(limits)) hasMore = await this.#pruning.retain(limits)
    } catch (thrown) {
      this.#ports.log.warn({ err: thrown }, 'retention failed; it will run again')
    }
    this.#runIn(hasMore ? MORE_MS : this.#ports.limits.retentionMs)
  }
}

// ---- details ----

const isOn = (limits: RetentionConfig): boolean => Object.values(limits).some((limit) => limit !== undefined)

const CREATED_PER_PASS = 64
const MORE_MS = 100 // turns come first
