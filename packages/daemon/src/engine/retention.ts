/** Runs retention on a schedule: a bounded pass at a time, at the start and then every minute, or sooner while there is more. */
import type { RetentionConfig } from '../options.ts'
import type { Ports } from './ports.ts'
import type { Pruning } from './pruning.ts'

export class Retention {
  readonly #ports: Ports
  readonly #pruning: Pruning
  readonly #config: RetentionConfig
  readonly #isOn: boolean
  #timer: NodeJS.Timeout | undefined
  #pass: Promise<void> = Promise.resolve()
  #created = 0

  constructor(ports: Ports, pruning: Pruning, config: RetentionConfig = {}) {
    this.#ports = ports
    this.#pruning = pruning
    this.#config = config
    this.#isOn = Object.values(config).some((limit) => limit !== undefined)
  }

  start(): void {
    this.#runIn(0)
  }

  /** A session was created: a busy daemon does not wait for the next minute. */
  onCreate(): void {
    this.#created += 1
    if (this.#created % CREATED_PER_PASS === 0) this.#runIn(0)
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#pass
  }

  #runIn(ms: number): void {
    if (!this.#isOn || this.#ports.isClosing()) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#pass = this.#pass.then(() => this.#run())
    }, ms)
    this.#timer.unref()
  }

  async #run(): Promise<void> {
    if (this.#ports.isClosing()) return
    let hasMore = false
    try {
      hasMore = await this.#pruning.retain(this.#config)
    } catch (thrown) {
      this.#ports.log.warn({ err: thrown }, 'retention failed; it will run again')
    }
    this.#runIn(hasMore ? MORE_MS : this.#ports.limits.retentionMs)
  }
}

// ---- details ----

const CREATED_PER_PASS = 64
const MORE_MS = 100 // turns come first
