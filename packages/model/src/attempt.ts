/**
 * One try: sends a request and feeds the answer to a reader, under clocks of our own.
 *
 * I1  It ends exactly once, with one of: `finished` (the reader has its proof), `clean` (the connection ended properly,
 *     which proves nothing), `refused` (another status than 2xx), or a fault. It never throws.
 * I2  Two clocks watch the body: liveness (any byte, pings count) and progress (what the model says). They stand still
 *     while the reader holds the answer back.
 * I3  The end of our own signal ends the request at once, in every phase.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { classify, Fault, isFault, type Policy } from '@breakfall/faults'
import { SseDecoder, type SseFrame } from '@breakfall/wire'
import type { Dispatcher } from 'undici'
import type { AttemptPhase } from './answer.ts'
import { monotonicMs, TIMER_MS_MAX } from './clock.ts'
import { agentFor } from './connections.ts'

export type AttemptRequest = {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer | undefined
}

export type AttemptClocks = Pick<Policy, 'connectMs' | 'headersMs' | 'livenessMs' | 'progressMs'>

/** `finished`: the proof is there, only usage and the end marker may follow. `ended`: nothing follows. */
export type ReadState = 'more' | 'finished' | 'ended'

/** Who reads the answer. May throw a Fault: that ends the attempt with it. */
export type AttemptReader = {
  head?(status: number, headers: IncomingHttpHeaders): void
  frame(frame: SseFrame): ReadState
  comment?(text: string): void
  /** All frames of one read were handed over. */
  flush?(): void
  /** The body of an answer that is not an event stream, whole. */
  whole(body: Buffer, contentType: string): void
  /** Grows with everything that the model says. */
  readonly progress: number
  /** No stream was asked for: whatever does not call itself one is read whole. */
  readonly prefersWhole?: boolean
}

export type Refusal = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly body: Buffer }

export type AttemptEnd = {
  readonly how: 'finished' | 'clean' | 'refused' | 'fault'
  readonly phase: AttemptPhase
  readonly bytes: number
  readonly durationMs: number
  readonly fault: Fault | undefined
  readonly refusal: Refusal | undefined
  /** Body bytes that were left inside an unfinished event. */
  readonly midEvent: boolean
}

export type Attempt = {
  readonly end: Promise<AttemptEnd>
  /** Holds the answer back, for a reader that is behind. */
  pause(): void
  resume(): void
}

export const ATTEMPT_LIMITS = {
  afterFinishMs: 1_000, // for usage and the end marker; some servers keep the socket open and send neither
  drainMs: 500, // for the rest of a finished body, so that its connection can serve again
  refusalBytesMax: 1024 * 1024,
  refusalMs: 10_000, // a refusal whose body dawdles is refused on its status alone
  wholeBytesMax: 64 * 1024 * 1024,
} as const

export function startAttempt(
  request: AttemptRequest,
  reader: AttemptReader,
  clocks: AttemptClocks,
  signal: AbortSignal,
): Attempt {
  return new RunningAttempt(request, reader, clocks, signal)
}

// ---- details ----

type BodyKind = 'events' | 'whole' | 'refusal'

class RunningAttempt implements Attempt, Dispatcher.DispatchHandler {
  readonly end: Promise<AttemptEnd>
  readonly #resolve: (end: AttemptEnd) => void
  readonly #request: AttemptRequest
  readonly #reader: AttemptReader
  readonly #clocks: AttemptClocks
  readonly #signal: AbortSignal
  readonly #startedAt = monotonicMs()
  #controller: Dispatcher.DispatchController | undefined
  #phase: AttemptPhase = 'connect'
  #bytes = 0
  #isOver = false
  #kind: BodyKind = 'events'
  #status = 0
  #headers: IncomingHttpHeaders = {}
  #events: SseDecoder | undefined
  #chunks: Buffer[] = []
  #readState: ReadState = 'more'
  #byteAt = 0
  #progressAt = 0
  #progressSeen = 0
  #isHeld = false
  #timer: NodeJS.Timeout | undefined

  constructor(request: AttemptRequest, reader: AttemptReader, clocks: AttemptClocks, signal: AbortSignal) {
    const { promise, resolve } = Promise.withResolvers<AttemptEnd>()
    this.end = promise
    this.#resolve = resolve
    this.#request = request
    this.#reader = reader
    this.#clocks = clocks
    this.#signal = signal
    signal.addEventListener('abort', this.#onAbort)
    if (signal.aborted) this.#onAbort()
    else this.#dispatch()
  }

  pause(): void {
    if (this.#isHeld || this.#isOver) return
    this.#isHeld = true
    this.#controller?.pause()
  }

  resume(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#byteAt = this.#progressAt = monotonicMs() // I2
    this.#controller?.resume()
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#isOver) {
      controller.abort(new Error('the attempt was over before its connection stood'))
      return
    }
    this.#phase = 'headers'
    this.#arm(this.#clocks.headersMs, () => this.#stalled('headers', this.#clocks.headersMs))
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (this.#isOver || status < 200) return
    this.#phase = 'stream'
    this.#status = status
    this.#headers = headers
    this.#byteAt = this.#progressAt = monotonicMs()
    this.#kind = status > 299 ? 'refusal' : kindOf(headers, this.#reader.prefersWhole === true)
    if (this.#kind === 'refusal') {
      this.#arm(ATTEMPT_LIMITS.refusalMs, () => this.#finishRefusal())
      return
    }
    this.#watch()
    this.#read(() => {
      checkEncoding(headers)
      this.#reader.head?.(status, headers)
      if (this.#kind === 'events')
        this.#events = new SseDecoder({
          onEvent: (frame) => {
            if (this.#readState !== 'ended') this.#advance(this.#reader.frame(frame))
          },
          onComment: (text) => this.#reader.comment?.(text),
        })
    })
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isOver) return
    this.#bytes += chunk.length
    this.#byteAt = monotonicMs()
    if (this.#events !== undefined) {
      try {
        this.#events.push(chunk)
        this.#reader.flush?.()
      } catch (thrown) {
        this.#fail(this.#classify(thrown))
        return
      }
      if (this.#reader.progress !== this.#progressSeen) {
        this.#progressSeen = this.#reader.progress
        this.#progressAt = this.#byteAt
      }
      if (this.#readState === 'ended') this.#finish('finished')
      return
    }
    this.#collect(chunk)
  }

  onResponseEnd(): void {
    if (this.#isOver) return
    switch (this.#kind) {
      case 'refusal':
        this.#finishRefusal()
        break
      case 'whole':
        this.#read(() => this.#reader.whole(Buffer.concat(this.#chunks), contentType(this.#headers)))
        if (!this.#isOver) this.#finish('finished')
        break
      case 'events':
        this.#finish(this.#readState === 'more' ? 'clean' : 'finished')
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#isOver) return
    if (this.#kind === 'refusal' && this.#phase === 'stream') this.#finishRefusal()
    else this.#fail(this.#classify(error))
  }

  #dispatch(): void {
    const { method, url, headers, body } = this.#request
    try {
      const { origin, pathname, search } = new URL(url)
      agentFor(this.#clocks.connectMs).dispatch(
        {
          origin,
          path: pathname + search,
          method: method as Dispatcher.HttpMethod,
          headers,
          body: body ?? null,
          headersTimeout: 0,
          bodyTimeout: 0,
        },
        this,
      )
    } catch (thrown) {
      this.#fail(this.#classify(thrown))
    }
  }

  readonly #onAbort = (): void => {
    this.#fail(this.#classify(this.#signal.reason)) // I3
  }

  #advance(state: ReadState): void {
    if (state === this.#readState) return
    this.#readState = state
    if (state === 'finished') this.#arm(ATTEMPT_LIMITS.afterFinishMs, () => this.#finish('finished'))
  }

  /** Runs the reader's code: what it throws ends the attempt. */
  #read(work: () => void): void {
    try {
      work()
    } catch (thrown) {
      this.#fail(this.#classify(thrown))
    }
  }

  #collect(chunk: Buffer): void {
    const bytesMax = this.#kind === 'refusal' ? ATTEMPT_LIMITS.refusalBytesMax : ATTEMPT_LIMITS.wholeBytesMax
    this.#chunks.push(chunk)
    this.#progressAt = this.#byteAt
    if (this.#bytes <= bytesMax) return
    if (this.#kind === 'refusal') this.#finishRefusal()
    else
      this.#fail(
        new Fault('payload_too_large', {
          boundary: 'model',
          phase: 'stream',
          facts: { limit: `an answer of at most ${bytesMax} bytes` },
        }),
      )
  }

  /** One timer for both clocks: it looks when it fires, so that a chunk costs no timer. */
  #watch(): void {
    const { livenessMs, progressMs } = this.#clocks
    const now = monotonicMs()
    const silentMs = now - this.#byteAt
    const idleMs = now - this.#progressAt
    if (this.#isHeld) {
      this.#arm(Math.min(livenessMs, progressMs), () => this.#watch()) // I2
      return
    }
    if (silentMs >= livenessMs) this.#stalled('liveness', silentMs)
    else if (idleMs >= progressMs) this.#stalled('progress', idleMs)
    else this.#arm(Math.min(livenessMs - silentMs, progressMs - idleMs), () => this.#watch())
  }

  #stalled(clock: 'headers' | 'liveness' | 'progress', afterMs: number): void {
    const said = {
      headers: 'no headers came',
      liveness: 'not a byte came',
      progress: 'the connection is alive, but the model said nothing',
    }[clock]
    this.#fail(
      new Fault('model_stream_stalled', {
        phase: this.#phase,
        reason: clock,
        facts: { afterMs },
        errorRaw: `${said} for ${Math.round(afterMs)} ms (${clock} clock)`,
      }),
    )
  }

  #classify(thrown: unknown): Fault {
    if (isFault(thrown) && !this.#signal.aborted) return thrown
    return classify(thrown, {
      boundary: 'model',
      phase: this.#phase,
      signal: this.#signal,
      address: addressOf(this.#request.url),
      afterMs: monotonicMs() - this.#startedAt,
    })
  }

  #finishRefusal(): void {
    const body = Buffer.concat(this.#chunks).subarray(0, ATTEMPT_LIMITS.refusalBytesMax)
    this.#settle('refused', undefined, { status: this.#status, headers: this.#headers, body })
  }

  #finish(how: 'finished' | 'clean'): void {
    this.#settle(how, undefined, undefined)
  }

  #fail(fault: Fault): void {
    this.#settle('fault', fault, undefined)
  }

  #settle(how: AttemptEnd['how'], fault: Fault | undefined, refusal: Refusal | undefined): void {
    if (this.#isOver) return
    this.#isOver = true // I1
    this.#signal.removeEventListener('abort', this.#onAbort)
    clearTimeout(this.#timer)
    this.#release(how)
    this.#resolve({
      how,
      phase: this.#phase,
      bytes: this.#bytes,
      durationMs: monotonicMs() - this.#startedAt,
      fault,
      refusal,
      midEvent: this.#events?.isMidEvent === true,
    })
  }

  /** A finished answer's connection is let run dry, to be used again; any other is closed. */
  #release(how: AttemptEnd['how']): void {
    const controller = this.#controller
    if (controller === undefined) return
    const abort = (): void => {
      if (!controller.aborted) controller.abort(new Error('the attempt is over'))
    }
    if (this.#isHeld) controller.resume()
    if (how === 'fault') abort()
    else setTimeout(abort, ATTEMPT_LIMITS.drainMs).unref()
  }

  #arm(ms: number, then: () => void): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(then, Math.min(Math.ceil(ms), TIMER_MS_MAX))
  }
}

/** Servers without a content type, or with `text/plain`, have been seen to stream: only what is surely not is read whole. */
function kindOf(headers: IncomingHttpHeaders, prefersWhole: boolean): BodyKind {
  const type = contentType(headers)
  if (prefersWhole) return type.includes('event-stream') ? 'events' : 'whole'
  return type.includes('json') || type.includes('html') ? 'whole' : 'events'
}

const contentType = (headers: IncomingHttpHeaders): string => String(headers['content-type'] ?? '').toLowerCase()

/** `identity` was asked for; bytes that we cannot read would look like an answer that says nothing. */
function checkEncoding(headers: IncomingHttpHeaders): void {
  const encoding = headers['content-encoding'] ?? 'identity'
  if (encoding === 'identity' || encoding === '') return
  throw new Fault('model_server_error', {
    phase: 'stream',
    facts: { detail: `it compressed its answer (${encoding}) although it was asked not to` },
  })
}

function addressOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).host : undefined
}
