/**
 * One try: sends a request and feeds the answer to a reader, under clocks of our own.
 *
 * I1  It ends exactly once, with one of: `finished` (the reader has its proof), `clean` (the connection ended properly,
 *     which proves nothing), `refused` (another status than 2xx), or a fault. It never throws.
 * I2  Every phase has a clock: connect, headers, and two for the body.
 * I3  The end of our own signal ends the request at once, in every phase.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { classify, Fault, isFault } from '@breakfall/faults'
import { SseDecoder, type SseFrame } from '@breakfall/wire'
import type { Dispatcher } from 'undici'
import type { AttemptPhase } from './answer.ts'
import { type BodyKind, bodyKind, checkEncoding, contentType } from './body-kind.ts'
import { monotonicMs } from './clock.ts'
import { agentFor } from './connections.ts'
import { type AttemptClocks, type StallClock, StallWatch } from './stall-watch.ts'

export type AttemptRequest = {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer | undefined
}

/** `finished`: the proof is there, only usage and the end marker may follow. `ended`: nothing follows. */
export type ReadState = 'more' | 'finished' | 'ended'

/** Who reads the answer. May throw a Fault: that ends the attempt with it. */
export type AttemptReader = {
  head?(status: number, headers: IncomingHttpHeaders): void
  frame(frame: SseFrame): ReadState
  comment?(text: string): void
  /** Something of the response was read: its head, or bytes of its body. */
  readonly onBytes?: (() => void) | undefined
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
  #progressSeen = 0
  #isHeld = false
  readonly #watch: StallWatch

  constructor(request: AttemptRequest, reader: AttemptReader, clocks: AttemptClocks, signal: AbortSignal) {
    const { promise, resolve } = Promise.withResolvers<AttemptEnd>()
    this.end = promise
    this.#resolve = resolve
    this.#request = request
    this.#reader = reader
    this.#clocks = clocks
    this.#signal = signal
    this.#watch = new StallWatch(clocks, (clock, afterMs) => this.#stalled(clock, afterMs)) // I2
    signal.addEventListener('abort', this.#onAbort)
    if (signal.aborted) this.#onAbort()
    else this.#dispatch()
  }

  pause(): void {
    if (this.#isHeld || this.#isOver) return
    this.#isHeld = true
    this.#watch.hold()
    this.#controller?.pause()
  }

  resume(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#watch.release()
    this.#controller?.resume()
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#isOver) {
      controller.abort(new Error('the attempt was over before its connection stood'))
      return
    }
    if (this.#isHeld) controller.pause()
    this.#phase = 'headers'
    this.#watch.awaitHeaders()
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (this.#isOver || status < 200) return
    this.#reader.onBytes?.()
    this.#phase = 'stream'
    this.#status = status
    this.#headers = headers
    this.#kind = bodyKind(status, headers, this.#reader.prefersWhole === true)
    if (this.#kind === 'refusal') {
      this.#watch.only(ATTEMPT_LIMITS.refusalMs, () => this.#finishRefusal())
      return
    }
    this.#watch.awaitBody()
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
    this.#watch.byte()
    this.#reader.onBytes?.()
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
        this.#watch.progress()
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
    if (state === 'finished') this.#watch.only(ATTEMPT_LIMITS.afterFinishMs, () => this.#finish('finished'))
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
    this.#watch.progress()
    if (this.#bytes <= bytesMax) return
    if (this.#kind === 'refusal') this.#finishRefusal()
    else this.#fail(tooLong(`its answer is longer than ${bytesMax} bytes`))
  }

  #stalled(clock: StallClock, afterMs: number): void {
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
    if (isFault(thrown) && !this.#signal.aborted)
      return thrown.category === 'payload_too_large' ? tooLong(thrown.error, thrown) : thrown
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
    this.#watch.stop()
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
}

/** What the server sends too much of is its failure: the client's own request was not too large. */
const tooLong = (detail: string, cause?: Fault): Fault =>
  new Fault('model_server_error', { phase: 'stream', facts: { detail }, errorRaw: detail, cause })

function addressOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).host : undefined
}
