/** How long a call may go without a sign of life, and how long it may take altogether, without the time in which a person is asked. */
import { SdkError, SdkErrorCode } from '@modelcontextprotocol/client'
import { systemNow } from './clock.ts'

export class IdleLimit implements Disposable {
  readonly #idleMs: number
  readonly #over = new AbortController()
  #leftMs: number
  #runsSince: number | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(idleMs: number, totalMs: number) {
    this.#idleMs = idleMs
    this.#leftMs = totalMs
    this.restart()
  }

  /** Aborts with the SDK's own timeout. */
  get signal(): AbortSignal {
    return this.#over.signal
  }

  /** The call made progress, or a person has answered. */
  restart(): void {
    this.stop()
    this.#runsSince = systemNow()
    const ms = Math.max(0, Math.min(this.#idleMs, this.#leftMs))
    this.#timer = setTimeout(() => this.#over.abort(timedOut()), ms)
  }

  /** The time does not count. */
  stop(): void {
    clearTimeout(this.#timer)
    if (this.#runsSince !== undefined) this.#leftMs -= systemNow() - this.#runsSince
    this.#runsSince = undefined
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
  }
}

// ---- details ----

const timedOut = (): SdkError => new SdkError(SdkErrorCode.RequestTimeout, 'the call took too long')
