/**
 * The client's side of a relayed stream: what was sent, what is held back, and when the head goes out.
 *
 * I1  Nothing goes out before the first content does: until then another attempt can start as if there had been none.
 * I2  With `tools`, frames of tool calls and everything after them wait until the answer is complete; with `answer`,
 *     everything waits. `auto` is `answer` if the request offers tools, for `holdMs` from an attempt's first content; then, and
 *     without tools, it is `tools`.
 * I3  What is held, and what is remembered for healing, is bounded.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { FaultReport } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { type ClientShape, type Fresh, plainFrame } from '../dialects/dialect.ts'
import { DIALECTS } from '../dialects/dialects.ts'
import type { FrameKind } from '../dialects/read-answer.ts'
import type { JsonObject } from '../json.ts'
import type { Segment } from '../machine/prefix-gate.ts'
import type { MachineEvent } from '../machine/reduce-answer.ts'
import type { RelayRequest, RelaySink, ResolvedRelayOptions } from './relay.ts'
import { clientHeaders, offersTools } from './relay-request.ts'
import { Outgoing } from './outgoing.ts'
import { SentText } from './sent-text.ts'

type HoldOptions = Pick<ResolvedRelayOptions, 'hold' | 'holdMs' | 'holdBytesMax' | 'pingMs'>

type Held = {
  readonly kind: FrameKind
  readonly frame: SseFrame
  readonly json: JsonObject | undefined
  readonly fresh: Fresh
  readonly texts: readonly Segment[]
}

export class ClientStream {
  readonly shape: ClientShape
  /** Something with content went out. */
  contentSent = false
  /** Text and reasoning that this attempt sent, in order. */
  readonly #sent = new SentText()
  readonly #sink: RelaySink
  readonly #options: HoldOptions
  readonly #timer: NodeJS.Timeout
  #upstream: IncomingHttpHeaders = {}
  #headSent = false
  #toolsSent = false
  #held: Held[] = []
  #heldChars = 0
  #sentChars = 0
  /** A tool call is among the held frames. */
  #holdsTools = false
  /** All frames are held back. */
  #holdsAnswer = false
  #holdTimer: NodeJS.Timeout | undefined
  readonly #isAdaptive: boolean
  /** An item that goes out whole has started. */
  #holdsItem = false
  #isThrough = false
  readonly #out = new Outgoing()
  #wroteSinceTick = false

  constructor(request: Pick<RelayRequest, 'api' | 'json'>, sink: RelaySink, options: HoldOptions) {
    this.shape = DIALECTS[request.api].shape()
    this.#isAdaptive = options.hold === 'auto' && offersTools(request.json)
    this.#sink = sink
    this.#options = options
    this.#timer = setInterval(() => this.#tick(), options.pingMs)
  }

  get headSent(): boolean {
    return this.#headSent
  }

  /** Whether another attempt can be compared with what went out. */
  get canHeal(): boolean {
    return this.shape.canHeal && !this.#toolsSent && this.#sentChars <= this.#options.holdBytesMax // I3
  }

  /** What this attempt sent, as events of the answer machine. Empty if it was too much to compare another answer with. */
  takeSent(attempt: number): readonly MachineEvent[] {
    const sent = this.#sent.take()
    if (this.#sentChars > this.#options.holdBytesMax) return [] // I3
    return sent.map(({ kind, text }, index) => {
      return { type: `${kind}-delta` as const, attempt, part: `s${index + 1}`, text }
    })
  }

  /** The attempt failed. What is held of it stays here: going out before the next attempt, it would come twice. */
  failed(): void {
    this.#stopHolding()
  }

  /** Another attempt begins. What was held of the last one is void. */
  begin(): void {
    this.#held = []
    this.#heldChars = 0
    this.#holdsTools = this.#holdsItem = false
    this.#holdsAnswer = this.#options.hold === 'answer' || (this.#isAdaptive && !this.contentSent)
    this.#stopHolding()
    this.#upstream = {}
    this.shape.begin(this.contentSent)
  }

  upstreamHead(headers: IncomingHttpHeaders): void {
    this.#upstream = headers
  }

  take(kind: FrameKind, frame: SseFrame, json: JsonObject | undefined, fresh: Fresh, texts: readonly Segment[]): void {
    const entry: Held = { kind, frame, json, fresh, texts }
    if (kind === 'tool') this.#holdsTools = true
    if (kind === 'content' && this.#isAdaptive && this.#holdsAnswer) this.#holdForAWhile()
    // Some servers end an item only by beginning another.
    if (kind !== 'lifecycle' && kind !== 'content') this.#holdsItem = kind === 'item'
    if (this.#mustHold(kind)) {
      this.#held.push(entry)
      this.#heldChars += charsOf(frame)
      if (this.#heldChars <= this.#options.holdBytesMax) return
      this.#isThrough = true // I3: past the limit it goes out as it comes
      this.#sendHeld()
      return
    }
    this.#sendHeld()
    this.#send(entry)
  }

  /** The answer is complete and proven: what is held goes out, and what follows passes through. */
  release(): void {
    this.#stopHolding()
    this.#sendHeld()
    this.#isThrough = true
  }

  comment(text: string): void {
    if (this.#headSent) this.#write(`: ${text}\n\n`)
  }

  /** False if the client is behind. */
  flush(): boolean {
    let isAhead = true
    for (const piece of this.#out.take()) {
      this.#wroteSinceTick = true
      isAhead = this.#sink.write(piece)
    }
    return isAhead
  }

  drained(): Promise<void> {
    return this.#sink.drained()
  }

  /** The proper end of a complete answer. */
  finish(): void {
    this.release()
    this.#write(this.shape.ending())
    this.#end()
  }

  /** The end of an answer that failed, in the API's own terms. */
  finishWith(frames: string): void {
    this.#write(frames)
    this.#end()
  }

  /** The end of an answer that broke: a closed connection if that is safe, else an error in the API's own terms. */
  breakOff({ category, error }: FaultReport, frames: string): void {
    const { cut } = this.#sink
    if (cut === undefined) return this.finishWith(frames)
    this.comment(`breakfall ended ${category}: ${error.replaceAll(/\s+/g, ' ')}`)
    this.flush()
    this.stop()
    cut()
  }

  /** Nothing more goes out this way. */
  stop(): void {
    clearInterval(this.#timer)
    this.#stopHolding()
  }

  // ---- details ----

  #mustHold(kind: FrameKind): boolean {
    if (this.#isThrough) return false
    if (this.#holdsAnswer) return true // I2
    if (kind === 'tail' || kind === 'opening' || kind === 'item') return true
    if (kind === 'lifecycle') return !this.contentSent || this.#held.length > 0 // I1
    if (kind === 'content' && this.#holdsItem) return true
    return this.#holdsTools && this.#options.hold !== 'none' // I2
  }

  #holdForAWhile(): void {
    this.#holdTimer ??= setTimeout(() => this.#stopHoldingText(), this.#options.holdMs)
  }

  #stopHolding(): void {
    clearTimeout(this.#holdTimer)
    this.#holdTimer = undefined
  }

  /** The answer takes long: its text goes out from now on, its tool calls still wait. */
  #stopHoldingText(): void {
    const held = this.#held
    this.#held = []
    this.#heldChars = 0
    this.#holdsAnswer = this.#holdsTools = this.#holdsItem = false
    for (const { kind, frame, json, fresh, texts } of held) this.take(kind, frame, json, fresh, texts)
    this.flush() // a client that is behind is noticed at the next read
  }

  #sendHeld(): void {
    const held = this.#held
    if (held.length === 0) return
    this.#held = []
    this.#heldChars = 0
    for (const entry of held) this.#send(entry)
  }

  #send({ kind, frame, json, fresh, texts }: Held): void {
    const out = this.shape.frame(frame, json, fresh)
    if (out === '') return
    if (!this.#headSent) this.#head(clientHeaders(this.#upstream))
    if (texts.length > 0 || IS_CONTENT.has(kind)) this.contentSent = true
    if (kind === 'tool') this.#toolsSent = true
    for (const segment of texts) this.#remember(segment)
    if (typeof out === 'string') this.#write(out)
    else this.#out.addFrame(out)
  }

  #remember(segment: Segment): void {
    this.#sentChars += segment.text.length
    if (this.#sentChars > this.#options.holdBytesMax) {
      this.#sent.take() // I3
      return
    }
    this.#sent.add(segment)
  }

  #write(text: string): void {
    if (!this.#headSent) this.#head({}) // no content yet, so it is open whose answer this will be
    this.#out.add(text)
  }

  /** With the headers of the attempt whose content goes out. */
  #head(headers: Readonly<Record<string, string>>): void {
    this.#headSent = true
    this.#sink.head(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
    })
  }

  #tick(): void {
    if (this.#wroteSinceTick) this.#wroteSinceTick = false
    else this.#ping()
    this.flush()
    this.#wroteSinceTick = false
  }

  #ping(): void {
    while (this.#held[0] !== undefined && this.shape.opensStream?.(this.#held[0].json) === true) {
      const { frame, json } = this.#held[0]
      this.#held = this.#held.slice(1)
      const out = this.shape.frame(frame, json, undefined)
      this.#write(typeof out === 'string' ? out : plainFrame(out))
    }
    this.#write(this.shape.ping())
  }

  #end(): void {
    this.flush()
    this.stop()
    this.#sink.end()
  }
}

/** What a client holds once it went out, and another attempt has to fit to. */
const IS_CONTENT: ReadonlySet<FrameKind> = new Set<FrameKind>(['content', 'tool', 'item', 'item-end'])

const charsOf = ({ data, source }: SseFrame): number => (source === undefined ? data.length : source.to - source.from)
