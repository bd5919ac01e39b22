/**
 * Faults of a connection, below HTTP, with toxiproxy's names and meanings (https://github.com/Shopify/toxiproxy).
 * Each toxic is one stage in one direction of one connection; its toxicity decides once per connection whether it acts.
 */
import { Transform, type TransformCallback } from 'node:stream'
import { HOLD_MS_MAX } from './fault-kinds.ts'

/** Attributes and their defaults, in milliseconds except `rate` (KB/s), `bytes`, `*_size` and slicer's `delay` (µs). */
export const TOXICS = {
  latency: { does: 'delays all data', attributes: { latency: 100, jitter: 0 } },
  down: { does: 'closes every connection at once', attributes: {} },
  bandwidth: { does: 'limits the speed', attributes: { rate: 100 } },
  slow_close: { does: 'delays the closing of the connection', attributes: { delay: 1_000 } },
  timeout: { does: 'stops all data, then closes the connection', attributes: { timeout: 1_000 } },
  reset_peer: { does: 'stops all data, then resets the connection', attributes: { timeout: 0 } },
  slicer: { does: 'splits data into small chunks', attributes: { average_size: 64, size_variation: 32, delay: 10 } },
  limit_data: { does: 'closes the connection after this many bytes', attributes: { bytes: 1_024 } },
} as const satisfies Record<string, { does: string; attributes: Record<string, number> }>

export type ToxicType = keyof typeof TOXICS
export const TOXIC_TYPES: readonly ToxicType[] = Object.keys(TOXICS).filter(isToxicType)

export function isToxicType(name: string): name is ToxicType {
  return Object.hasOwn(TOXICS, name)
}

export type Toxic = {
  readonly type: ToxicType
  /** downstream: what the client receives; upstream: what it sends. */
  readonly stream: 'downstream' | 'upstream'
  /** The probability that a connection is affected, from 0 to 1. */
  readonly toxicity: number
  readonly attributes: Readonly<Record<string, number>>
}

/** What a toxic may do to the connection as a whole. */
export type Link = { close(): void; reset(): void }

/** The stage for one toxic. Its timers end with it. */
export function toxicStage(toxic: Toxic, link: Link, random: () => number): Transform {
  const { attributes } = toxic
  const of = (name: string): number => attributes[name] ?? 0
  switch (toxic.type) {
    case 'latency':
      return new Delay(() => of('latency') + (random() * 2 - 1) * of('jitter'))
    case 'bandwidth':
      return new Pace((bytes) => [[bytes, bytes.length / Math.max(of('rate'), 0.001)]]) // KB/s is bytes per ms
    case 'slicer':
      return new Pace((bytes) => slices(bytes, of('average_size'), of('size_variation'), of('delay') / 1_000, random))
    case 'slow_close':
      return new SlowClose(of('delay'))
    case 'limit_data':
      return new Limit(of('bytes'), link)
    case 'timeout':
      return new Blackhole(of('timeout') === 0 ? HOLD_MS_MAX : of('timeout'), () => link.close())
    case 'reset_peer':
      return new Blackhole(of('timeout'), () => link.reset())
    case 'down':
      return new Blackhole(0, () => link.close())
  }
}

// ---- details ----

/** Transform with timers that are cleared when it is destroyed. */
class Timed extends Transform {
  readonly #timers = new Set<NodeJS.Timeout>()

  protected later(ms: number, run: () => void): void {
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer)
        run()
      },
      Math.min(Math.max(0, ms), HOLD_MS_MAX),
    )
    this.#timers.add(timer)
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    for (const timer of this.#timers) clearTimeout(timer)
    done(error)
  }
}

/** Delays each chunk and keeps their order. Delays overlap, so latency does not limit throughput. */
class Delay extends Timed {
  readonly #delayMs: () => number
  /** One queue instead of a timer per chunk: timers of different lengths may fire out of order within a millisecond. */
  readonly #queue: { readonly bytes: Buffer; readonly dueAt: number }[] = []
  #dueAt = 0
  #held = 0
  #resume: TransformCallback | undefined
  #flushed: TransformCallback | undefined

  constructor(delayMs: () => number) {
    super()
    this.#delayMs = delayMs
  }

  override _transform(bytes: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#dueAt = Math.max(this.#dueAt, performance.now() + Math.max(0, this.#delayMs()))
    this.#held += bytes.length
    this.#queue.push({ bytes, dueAt: this.#dueAt })
    if (this.#queue.length === 1) this.#await()
    if (this.#held < HELD_BYTES_MAX) done()
    else this.#resume = done
  }

  override _flush(done: TransformCallback): void {
    if (this.#queue.length === 0) done()
    else this.#flushed = done
  }

  #await(): void {
    const next = this.#queue[0]
    if (next === undefined) return
    this.later(next.dueAt - performance.now(), () => {
      this.#queue.shift()
      this.#held -= next.bytes.length
      this.push(next.bytes)
      this.#await()
      const resume = this.#resume
      this.#resume = undefined
      resume?.()
      if (this.#queue.length === 0) this.#flushed?.()
    })
  }
}

/** Sends chunks one after the other, each after its own delay. */
class Pace extends Timed {
  readonly #chunks: (bytes: Buffer) => Iterable<readonly [Buffer, number]>

  constructor(chunks: (bytes: Buffer) => Iterable<readonly [Buffer, number]>) {
    super()
    this.#chunks = chunks
  }

  override _transform(bytes: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const chunks = this.#chunks(bytes)[Symbol.iterator]()
    const step = (): void => {
      const { value, done: isOver } = chunks.next()
      if (isOver === true) return done()
      this.later(value[1], () => {
        this.push(value[0])
        step()
      })
    }
    step()
  }
}

class SlowClose extends Timed {
  readonly #delayMs: number

  constructor(delayMs: number) {
    super()
    this.#delayMs = delayMs
  }

  override _transform(bytes: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    done(null, bytes)
  }

  override _flush(done: TransformCallback): void {
    this.later(this.#delayMs, done)
  }
}

class Limit extends Timed {
  #remaining: number
  readonly #link: Link

  constructor(bytes: number, link: Link) {
    super()
    this.#remaining = bytes
    this.#link = link
  }

  override _transform(bytes: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const passed = bytes.subarray(0, Math.max(0, this.#remaining))
    this.#remaining -= passed.length
    if (passed.length > 0) this.push(passed)
    if (this.#remaining <= 0) this.#link.close()
    done()
  }
}

/** Passes nothing, until its time is up. */
class Blackhole extends Timed {
  constructor(ms: number, end: () => void) {
    super()
    this.later(ms, end)
  }

  override _transform(): void {
    // The callback is never called, so nothing more is read, as in a dead network.
  }
}

const HELD_BYTES_MAX = 1024 * 1024

function* slices(
  bytes: Buffer,
  average: number,
  variation: number,
  delayMs: number,
  random: () => number,
): Iterable<readonly [Buffer, number]> {
  for (let from = 0; from < bytes.length;) {
    const size = Math.max(1, Math.round(average + (random() * 2 - 1) * variation))
    yield [bytes.subarray(from, from + size), delayMs]
    from += size
  }
}
