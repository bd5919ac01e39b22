/**
 * Replaces Node's clocks, timers and dice by the world's. Install before anything else is loaded: code that keeps a reference to the
 * real ones would escape.
 */
import { here, hasWorld, REAL, type Scheduled, START, theWorld } from './time.ts'

export function installGlobals(): void {
  const timers = {
    setTimeout: (run: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) =>
      new Timer(run, args, clampMs(ms), false),
    setInterval: (run: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) =>
      new Timer(run, args, clampMs(ms), true),
    setImmediate: (run: (...args: unknown[]) => void, ...args: unknown[]) => new Timer(run, args, 0, false),
    clearTimeout: clear,
    clearInterval: clear,
    clearImmediate: clear,
  }
  Object.assign(globalThis, timers, { Date: WorldDate, fetch: refused('fetch'), WebSocket: refused('WebSocket') })
  AbortSignal.timeout = timeoutSignal
  Math.random = () => {
    if (!hasWorld()) return REAL.random()
    return theWorld().isEven ? 0.5 : here().dice.next()
  }
  performance.now = () => (hasWorld() ? theWorld().now : 0)
  const hrtime = (): [number, number] => {
    const now = hasWorld() ? theWorld().now : 0
    return [Math.floor(now / 1000), (now % 1000) * 1e6]
  }
  process.hrtime = Object.assign(hrtime, { bigint: () => BigInt(Math.round((hasWorld() ? theWorld().now : 0) * 1e6)) })
}

/** Reaching this inside a universe is a leak of the real world into it. */
export function refused(name: string): (...args: readonly unknown[]) => never {
  return function refuse() {
    const error = new Error(`real I/O in the universe: ${name}`)
    if (hasWorld()) theWorld().fail(error)
    throw error
  }
}

/** A call that writes a file: fine below the universe's folder, and otherwise a leak. Reading is fine anywhere. */
export function ownFile(name: string, real: (...args: unknown[]) => unknown): (...args: unknown[]) => unknown {
  return (...args) => {
    const [path, second] = args
    const isReading = name.startsWith('open') && (second === undefined || second === 'r')
    const paths = name.startsWith('rename')
      ? [path, second]
      : name.startsWith('cp') || name.startsWith('copy')
        ? [second]
        : [path]
    const isOwn = (one: unknown): boolean => typeof one !== 'string' || one.startsWith(theWorld().folder)
    if (hasWorld() && !isReading && !paths.every(isOwn)) refused(`fs ${name} ${paths.join(' ')}`)()
    return real(...args)
  }
}

// ---- details ----

const TIMER_MS_MAX = 2 ** 31 - 1

const clampMs = (ms = 1): number => (ms >= 1 && ms <= TIMER_MS_MAX ? Math.trunc(ms) : 1)

class Timer {
  readonly #run: (...args: unknown[]) => void
  readonly #args: readonly unknown[]
  readonly #ms: number
  readonly #isRepeated: boolean
  readonly #process = here()
  #scheduled: Scheduled

  constructor(run: (...args: unknown[]) => void, args: readonly unknown[], ms: number, isRepeated: boolean) {
    this.#run = run
    this.#args = args
    this.#ms = ms
    this.#isRepeated = isRepeated
    this.#scheduled = this.#schedule()
  }

  #schedule(): Scheduled {
    return theWorld().after(this.#ms, this.#process, this.#ms === 0 ? 'immediate' : 'timer', () => {
      if (this.#isRepeated) this.#scheduled = this.#schedule()
      this.#run(...this.#args)
    })
  }

  cancel(): void {
    this.#scheduled.cancel()
  }

  refresh(): this {
    this.#scheduled.cancel()
    this.#scheduled = this.#schedule()
    return this
  }

  close(): this {
    this.cancel()
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  hasRef(): boolean {
    return true
  }

  [Symbol.dispose](): void {
    this.cancel()
  }
}

function clear(timer: unknown): void {
  if (timer instanceof Timer) timer.cancel()
}

function timeoutSignal(ms: number): AbortSignal {
  const controller = new AbortController()
  setTimeout(() => controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError')), ms)
  return controller.signal
}

const wallNow = (): number => {
  if (!hasWorld()) return START
  const process = here()
  return START + theWorld().now + (process.threadOf ?? process).skewMs
}

class WorldDate extends REAL.Date {
  constructor(...args: readonly unknown[]) {
    // A spread of unknown values is what `Date` takes; its own overloads cannot say so.
    super(...((args.length === 0 ? [wallNow()] : args) as [number]))
  }

  static override now(): number {
    return Math.floor(wallNow())
  }
}
