/**
 * One attempt: sends a request and feeds the answer to a reader, under its own clocks.
 *
 * I1  It ends exactly once, with one of: `finished` (the reader has its proof), `clean` (the connection ended properly,
 *     which proves nothing), `refused` (a status other than 2xx), or a fault. It never throws.
 * I2  Every phase has a clock: connect, headers, and two for the body.
 * I3  If the server keeps the answer, a new connection continues at the same byte after a break, before anything
 *     else is tried. A server that has nothing new to say ends that.
 * I4  When our own signal fires, the request ends at once, in every phase.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { classify, Fault, isFault } from '@breakfall/faults'
import { SseDecoder, type SseFrame } from '@breakfall/wire'
import type { Dispatcher } from 'undici'
import type { AttemptPhase } from '../contract/answer.ts'
import { monotonicMs } from '../lib/clock.ts'
import {
  type Attempt,
  ATTEMPT_LIMITS,
  type AttemptEnd,
  type AttemptReader,
  type AttemptRequest,
  type ReadState,
  type Refusal,
} from './attempt.ts'
import { EventLines } from './event-lines.ts'
import { isJsonLines, type Reframer, reframerFor } from './framing.ts'
import { dispatcherFor, noteCompressing } from './connections.ts'
import { payloadOf } from './payload.ts'
import { continueAnswer, forget } from './replay.ts'
import { taking } from '@breakfall/wire/node'
import { endAttemptSpan, tracedRequest } from './attempt-span.ts'
import type { Span } from '../telemetry/spans.ts'
import { type AttemptClocks, type StallClock, StallWatch } from './stall-watch.ts'
import { READING } from './time-slice.ts'

export function startAttempt(
  request: AttemptRequest,
  reader: AttemptReader,
  clocks: AttemptClocks,
  signal: AbortSignal,
): Attempt {
  return new RunningAttempt(request, reader, clocks, signal)
}

// ---- details ----

type Controller = Dispatcher.DispatchController

/** Where the attempt is, with what only that phase has. */
type State =
  | { readonly at: 'connecting' }
  | { readonly at: 'awaiting-headers'; readonly controller: Controller }
  | {
      readonly at: 'reading-events'
      readonly controller: Controller
      readonly events: SseDecoder
      readonly lines: EventLines
      readonly reframer: Reframer | undefined
      read: ReadState
      progressSeen: number
    }
  | {
      readonly at: 'reading-whole'
      readonly controller: Controller
      readonly type: string
      readonly chunks: Buffer[]
    }
  | {
      readonly at: 'reading-refusal'
      readonly controller: Controller
      readonly status: number
      readonly headers: IncomingHttpHeaders
      readonly chunks: Buffer[]
    }
  | {
      /** Between two connections: the decoder may hold half a frame. */
      readonly at: 'reattaching'
      readonly reading: Extract<State, { at: 'reading-events' }>
      /** What broke the connection; undefined if it ended properly, but too early. */
      readonly fault: Fault | undefined
    }
  | { readonly at: 'over' }

type Reading = Extract<State, { at: `reading-${string}` }>

/** How it ended: `complete` leaves a connection that can be reused. */
type Ending = { readonly complete: boolean; readonly fault?: Fault; readonly refusal?: Refusal }

const PHASES: Readonly<Record<Exclude<State['at'], 'over'>, AttemptPhase>> = {
  connecting: 'connect',
  'awaiting-headers': 'headers',
  'reading-events': 'stream',
  'reading-whole': 'stream',
  'reading-refusal': 'stream',
  reattaching: 'stream',
}

class RunningAttempt implements Attempt, Dispatcher.DispatchHandler {
  readonly end: Promise<AttemptEnd>
  readonly #resolve: (end: AttemptEnd) => void
  readonly #request: AttemptRequest
  readonly #reader: AttemptReader
  readonly #clocks: AttemptClocks
  readonly #signal: AbortSignal
  readonly #startedAt = monotonicMs()
  readonly #watch: StallWatch
  readonly #span: Span | undefined
  #status: number | undefined
  #state: State = { at: 'connecting' }
  #bytes = 0
  #isHeld = false
  #reattached = 0
  /** Bytes received when it re-attached last. */
  #reattachedAt = -1

  constructor(request: AttemptRequest, reader: AttemptReader, clocks: AttemptClocks, signal: AbortSignal) {
    const { promise, resolve } = Promise.withResolvers<AttemptEnd>()
    this.end = promise
    this.#resolve = resolve
    const traced = tracedRequest(request)
    this.#request = traced.request
    this.#span = traced.span
    this.#reader = reader
    this.#clocks = clocks
    this.#signal = signal
    this.#watch = new StallWatch(clocks, (clock, afterMs) => this.#stalled(clock, afterMs)) // I2
    signal.addEventListener('abort', this.#onAbort)
    if (signal.aborted) this.#onAbort()
    else this.#dispatch()
  }

  pause(): void {
    if (this.#isHeld || this.#state.at === 'over') return
    this.#isHeld = true
    this.#watch.hold()
    if ('controller' in this.#state) this.#state.controller.pause()
  }

  resume(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#watch.release()
    if ('controller' in this.#state) this.#state.controller.resume()
  }

  // ---- what undici calls ----

  onRequestStart(controller: Controller): void {
    if (this.#state.at !== 'connecting') {
      controller.abort(new Error('the attempt was over before it had a connection'))
      return
    }
    this.#state = { at: 'awaiting-headers', controller }
    if (this.#isHeld) controller.pause()
    this.#watch.awaitHeaders()
  }

  onResponseStart(controller: Controller, status: number, headers: IncomingHttpHeaders): void {
    if (this.#state.at === 'over' || status < 200) return
    this.#status ??= status
    this.#reader.onBytes?.()
    this.#state = this.#reading(controller, status, headers)
    if (this.#state.at === 'reading-refusal') {
      this.#watch.only(ATTEMPT_LIMITS.refusalMs, () => this.#settleWith(this.#state))
      return
    }
    this.#watch.awaitBody()
    this.#run(() => {
      if (isCompressed(headers)) noteCompressing(new URL(this.#request.url).origin)
      checkEncoding(headers)
      this.#reader.head?.(status, headers)
    })
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    const state = this.#state
    if (!isReading(state) || state.controller !== controller) return
    READING.begin()
    this.#bytes += chunk.length
    this.#watch.byte()
    this.#reader.onBytes?.()
    if (state.at === 'reading-events') this.#readEvents(state, () => pushEvents(state, chunk))
    else this.#collect(state, chunk)
    if (!this.#isHeld && READING.isOver) this.#pauseForOthers(controller)
  }

  onResponseEnd(): void {
    const state = this.#state
    if (state.at === 'reading-whole') this.#run(() => this.#reader.whole(Buffer.concat(state.chunks), state.type))
    if (state.at === 'reading-events') {
      this.#readEvents(state, () => endEvents(state))
      if (this.#state === state && this.#reattach(state, undefined)) return
    }
    this.#settleWith(this.#state)
  }

  onResponseError(controller: Controller, error: Error): void {
    const state = this.#state
    if (state.at === 'over' || state.at === 'reattaching') return
    if ('controller' in state && state.controller !== controller) return // an earlier connection of this attempt
    if (state.at === 'reading-refusal') return this.#settleWith(state)
    const fault = this.#classify(error)
    if (state.at === 'reading-events' && this.#reattach(state, fault)) return
    this.#fail(fault)
  }

  // ---- re-attaching ----

  /** I3: false if the server keeps nothing, or had nothing new the last time. */
  #reattach(reading: Extract<State, { at: 'reading-events' }>, fault: Fault | undefined): boolean {
    const { replay } = this.#request
    const isSpent = this.#reattached >= ATTEMPT_LIMITS.reattachesMax || this.#bytes === this.#reattachedAt
    if (replay === undefined || reading.read !== 'more' || isSpent || this.#signal.aborted) return false
    this.#reattached++
    this.#reattachedAt = this.#bytes
    this.#state = { at: 'reattaching', reading, fault }
    const old = reading.controller
    if (!old.aborted) old.abort(new Error('the attempt continues on another connection'))
    const { connectMs, livenessMs } = this.#clocks
    this.#watch.only(livenessMs, () => this.#giveUpReattaching())
    const serial = this.#reattached
    void continueAnswer(replay, this.#bytes, connectMs, {
      isWanted: () => this.#reattached === serial && this.#state.at !== 'over',
      started: (controller) => {
        if (this.#isHeld) controller.pause()
      },
      continued: (controller) => this.#continued(controller),
      lost: () => this.#giveUpReattaching(),
      reader: this,
    })
    return true
  }

  #continued(controller: Controller): void {
    const state = this.#state
    if (state.at !== 'reattaching') return
    this.#reader.onBytes?.()
    this.#state = { ...state.reading, controller }
    this.#watch.awaitBody()
  }

  /** The answer is not there any more, or the server is not: what broke it is what happened. */
  #giveUpReattaching(): void {
    const state = this.#state
    if (state.at !== 'reattaching') return
    if (state.fault === undefined) this.#settle({ complete: true })
    else this.#fail(state.fault)
  }

  // ---- reading ----

  #reading(controller: Controller, status: number, headers: IncomingHttpHeaders): Reading {
    switch (bodyKind(status, headers, this.#reader.prefersWhole === true)) {
      case 'refusal':
        return { at: 'reading-refusal', controller, status, headers, chunks: [] }
      case 'whole':
        return { at: 'reading-whole', controller, type: contentType(headers), chunks: [] }
      case 'events': {
        const events = new SseDecoder({
          onEvent: (frame) => this.#frame(frame),
          onRun: (read, from) => this.#reader.frames?.(read, from) ?? from,
          onComment: (text) => this.#reader.comment?.(text),
        })
        const reframer = reframerFor(contentType(headers))
        return {
          at: 'reading-events',
          controller,
          events,
          lines: new EventLines(),
          reframer,
          read: 'more',
          progressSeen: 0,
        }
      }
    }
  }

  #readEvents(state: Extract<State, { at: 'reading-events' }>, read: () => void): void {
    this.#run(() => {
      read()
      this.#reader.flush?.()
    })
    if (this.#reader.progress !== state.progressSeen) {
      state.progressSeen = this.#reader.progress
      this.#watch.progress()
    }
    if (state.read === 'ended') this.#settleWith(this.#state)
  }

  #frame(frame: SseFrame): void {
    const state = this.#state
    if (state.at !== 'reading-events' || state.read === 'ended') return
    const read = this.#reader.frame(frame)
    if (read === state.read) return
    state.read = read
    if (read === 'finished') this.#watch.only(ATTEMPT_LIMITS.afterFinishMs, () => this.#settleWith(this.#state))
  }

  #collect(state: Extract<State, { at: 'reading-whole' | 'reading-refusal' }>, chunk: Buffer): void {
    const isRefusal = state.at === 'reading-refusal'
    const bytesMax = isRefusal ? ATTEMPT_LIMITS.refusalBytesMax : ATTEMPT_LIMITS.wholeBytesMax
    const { memory } = this.#reader
    if (!isRefusal && memory !== undefined) this.#run(() => taking(memory)(chunk.length))
    if (this.#state !== state) return
    state.chunks.push(chunk)
    this.#watch.progress()
    if (this.#bytes <= bytesMax) return
    if (isRefusal) this.#settleWith(state)
    else this.#fail(tooLong(`its answer is longer than ${bytesMax} bytes`))
  }

  #pauseForOthers(controller: Controller): void {
    controller.pause()
    READING.pausedUntilNext(() => {
      if (!this.#isHeld) controller.resume()
    })
  }

  /** Runs the reader's code: what it throws ends the attempt. */
  #run(work: () => void): void {
    try {
      work()
    } catch (thrown) {
      this.#fail(this.#classify(thrown))
    }
  }

  // ---- the request ----

  #dispatch(): void {
    const { url, method = 'POST' } = this.#request
    const { headers, body } = payloadOf(this.#request)
    this.#run(() => {
      const { origin, pathname, search } = new URL(url)
      const path = pathname + search
      const options = { origin, path, method, headers, body, headersTimeout: 0, bodyTimeout: 0 } as const
      dispatcherFor(origin, this.#clocks.connectMs).dispatch(options, this)
    })
  }

  readonly #onAbort = (): void => {
    this.#fail(this.#classify(this.#signal.reason)) // I4
  }

  #stalled(clock: StallClock, afterMs: number): void {
    const state = this.#state
    const fault = new Fault('model_stream_stalled', {
      phase: this.#phase,
      reason: clock,
      facts: { afterMs },
      errorRaw: `${STALLED[clock]} for ${Math.round(afterMs)} ms (${clock} timeout)`,
    })
    // Silence may be a connection that died unnoticed, as after a suspend. A model that says nothing would stay silent.
    if (clock === 'liveness' && state.at === 'reading-events' && this.#reattach(state, fault)) return
    this.#fail(fault)
  }

  get #phase(): AttemptPhase {
    return this.#state.at === 'over' ? 'stream' : PHASES[this.#state.at]
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

  // ---- the end ----

  /** The response is over as far as it will be read. */
  #settleWith(state: State): void {
    if (!isReading(state)) return
    if (state.at !== 'reading-refusal') return this.#settle({ complete: true })
    const { status, headers, chunks } = state
    const body = Buffer.concat(chunks).subarray(0, ATTEMPT_LIMITS.refusalBytesMax)
    this.#settle({ complete: true, refusal: { status, headers, body } })
  }

  #fail(fault: Fault): void {
    this.#settle({ complete: false, fault })
  }

  #settle({ complete, fault, refusal }: Ending): void {
    if (this.#state.at === 'over') return
    const phase = this.#phase
    const controller = 'controller' in this.#state ? this.#state.controller : undefined
    this.#state = { at: 'over' } // I1
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#watch.stop()
    if (controller !== undefined) this.#release(controller, complete)
    const { replay } = this.#request
    if (replay !== undefined && !complete && phase !== 'connect') forget(replay, this.#clocks.connectMs)
    const durationMs = monotonicMs() - this.#startedAt
    const end = { phase, bytes: this.#bytes, durationMs, fault, refusal, reattached: this.#reattached }
    endAttemptSpan(this.#span, this.#status, end)
    this.#resolve(end)
  }

  /** The connection of a complete answer gets a moment to drain and is reused; any other is closed. */
  #release(controller: Controller, complete: boolean): void {
    const abort = (): void => {
      if (!controller.aborted) controller.abort(new Error('the attempt is over'))
    }
    if (this.#isHeld) controller.resume()
    if (complete) setTimeout(abort, ATTEMPT_LIMITS.drainMs).unref()
    else abort()
  }
}

const isReading = (state: State): state is Reading => state.at.startsWith('reading-')

const STALLED: Readonly<Record<StallClock, string>> = {
  headers: 'no headers came',
  liveness: 'no bytes came',
  progress: 'the connection is alive, but the model said nothing',
}

function pushEvents({ events, lines, reframer }: Extract<State, { at: 'reading-events' }>, chunk: Buffer): void {
  if (reframer !== undefined) return events.push(reframer.push(chunk))
  lines.add(chunk)
  const { eventLinesMax } = ATTEMPT_LIMITS
  if (lines.count > eventLinesMax) throw tooLong(`one event of its answer has more than ${eventLinesMax} lines`)
  events.push(chunk)
}

function endEvents({ events, reframer, read }: Extract<State, { at: 'reading-events' }>): void {
  if (reframer !== undefined && read === 'more') events.push(reframer.end())
  events.end()
}

/** A server that sends too much has failed; the client's own request was not too large. */
const tooLong = (detail: string, cause?: Fault): Fault =>
  new Fault('model_server_error', { phase: 'stream', facts: { detail }, errorRaw: detail, cause })

const addressOf = (url: string): string | undefined => (URL.canParse(url) ? new URL(url).host : undefined)

type BodyKind = 'events' | 'whole' | 'refusal'

/**
 * Servers have been seen to stream without a content type, or with `text/plain`. So if a stream was asked for, only a body
 * that is certainly not one is read whole.
 */
function bodyKind(status: number, headers: IncomingHttpHeaders, prefersWhole: boolean): BodyKind {
  if (status > 299) return 'refusal'
  const type = contentType(headers)
  if (isJsonLines(type)) return 'events'
  if (prefersWhole) return type.includes('event-stream') || type.includes('eventstream') ? 'events' : 'whole'
  return type.includes('json') || type.includes('html') ? 'whole' : 'events'
}

const contentType = (headers: IncomingHttpHeaders): string => String(headers['content-type'] ?? '').toLowerCase()

/** We asked for `identity`. Compressed bytes would look like an answer that says nothing, so this one is asked for again. */
function checkEncoding(headers: IncomingHttpHeaders): void {
  if (!isCompressed(headers)) return
  throw new Fault('model_server_error', {
    phase: 'stream',
    facts: { detail: `it compressed its answer (${headers['content-encoding']}) although it was asked not to` },
  })
}

function isCompressed(headers: IncomingHttpHeaders): boolean {
  const encoding = headers['content-encoding'] ?? ''
  return encoding !== '' && encoding !== 'identity'
}
