/**
 * The client's side of a relayed stream: what was sent, what is held back, and when the head goes out.
 *
 * I1  Nothing goes out before the first content does: until then another attempt can start as if there had been none.
 * I2  With `tools`, frames of tool calls and everything after them wait until the answer is complete; with `answer`,
 *     everything waits. `auto` is `answer` if the request offers tools, for `holdMs` from an attempt's first content; then, and
 *     without tools, it is `tools`.
 * I3  What is held, and what is remembered for healing, is bounded, for each answer and for all of them together.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { Fault, type FaultReport } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { type ClientShape, type Fresh, plainFrame } from '../dialects/dialect.ts'
import { DIALECTS } from '../dialects/dialects.ts'
import { DOUBT, type Doubt, doubtText } from '../dialects/doubts.ts'
import type { FrameKind } from '../dialects/read-answer.ts'
import type { JsonObject } from '../lib/json.ts'
import { PrefixGate, type Segment } from '../machine/prefix-gate.ts'
import type { MachineEvent } from '../machine/reduce-answer.ts'
import { HeldFrames, type HeldRun } from './held-frames.ts'
import type { RelayRequest, RelaySink, ReturnedHeaders, ResolvedRelayOptions } from './relay.ts'
import { choicesAsked, clientHeaders, offersTools } from './relay-request.ts'
import { Outgoing } from './outgoing.ts'
import { SentText } from './sent-text.ts'

type HoldOptions = Pick<ResolvedRelayOptions, 'hold' | 'holdMs' | 'holdBytesMax' | 'pingMs' | 'memory'>

/**
 * `waiting`: no content went out yet. `flowing`: what came last went out. `holding-item`: until that item is complete.
 * `holding-tools` and `holding-answer`: until the answer is. `through`: it is, or it is too long to be held, and what is goes out first.
 */
type State = 'waiting' | 'flowing' | 'holding-item' | 'holding-tools' | 'holding-answer' | 'through'

/** `follow`: goes out, unless something waits. A state after the colon is the next one. */
type Move = 'send' | 'hold' | 'follow' | `${'send' | 'hold'}:${State}`

const HOLD_ALL = everyKind('hold')

/** What each kind of frame does in each state. */
const MOVES: Readonly<Record<State, Readonly<Record<FrameKind, Move>>>> = {
  waiting: {
    lifecycle: 'hold', // I1
    opening: 'hold',
    content: 'send:flowing',
    item: 'hold:holding-item',
    'item-end': 'send:flowing',
    tool: 'hold:holding-tools',
    tail: 'hold',
  },
  flowing: {
    lifecycle: 'follow',
    opening: 'hold',
    content: 'send',
    item: 'hold:holding-item',
    'item-end': 'send',
    tool: 'hold:holding-tools',
    tail: 'hold',
  },
  'holding-item': {
    lifecycle: 'hold',
    opening: 'hold:flowing', // some servers end an item only by beginning another
    content: 'hold',
    item: 'hold',
    'item-end': 'send:flowing',
    tool: 'hold:holding-tools',
    tail: 'hold:flowing',
  },
  'holding-tools': HOLD_ALL, // I2
  'holding-answer': HOLD_ALL, // I2
  through: everyKind('follow'),
}

export class ClientStream {
  readonly shape: ClientShape
  /** Something with content went out. */
  contentSent = false
  /** Headers that say what was repaired in the request. */
  repairs: ReturnedHeaders = {}
  readonly #sent: SentText
  readonly #sink: RelaySink
  readonly #options: HoldOptions
  readonly #timer: NodeJS.Timeout
  readonly #jsonOf: (frame: SseFrame) => JsonObject | undefined
  readonly #isAdaptive: boolean
  #upstream: IncomingHttpHeaders = {}
  /** Headers of ours. */
  #marks: Readonly<Record<string, string>> = {}
  #headSent = false
  #toolsSent = false
  #hasSeveralChoices: boolean
  #isForgotten = false
  #state: State = 'waiting'
  readonly #held = new HeldFrames()
  /** Bytes that the budget of the process knows about. */
  #charged = 0
  #holdTimer: NodeJS.Timeout | undefined
  readonly #out = new Outgoing()
  #wroteSinceTick = false

  /** `keepsText`: a server could continue what was sent. */
  constructor(request: Pick<RelayRequest, 'api' | 'json'>, sink: RelaySink, options: HoldOptions, keepsText = false) {
    const { shape, jsonOf } = DIALECTS[request.api]
    this.shape = shape()
    this.#jsonOf = jsonOf
    this.#sent = new SentText(keepsText)
    this.#hasSeveralChoices = choicesAsked(request.json) > 1
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
    return this.shape.canHeal && !this.#hasSeveralChoices && !this.#toolsSent && !this.#isForgotten
  }

  /** Answers that come by turns cannot be compared with another attempt, whose turns are others. */
  severalChoices(): void {
    this.#hasSeveralChoices = true
  }

  /** Lets another attempt through once it has repeated what went out. */
  replayGate(): PrefixGate {
    return new PrefixGate([this.#sent.known])
  }

  /** What this attempt sent, as events of the answer machine. Empty if it was too much to compare another answer with. */
  takeSent(attempt: number): readonly MachineEvent[] {
    const sent = this.#sent.take()
    if (this.#isForgotten) return [] // I3
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
    this.#held.takeAll()
    const holdsAnswer = this.#options.hold === 'answer' || (this.#isAdaptive && !this.contentSent)
    this.#state = holdsAnswer ? 'holding-answer' : this.contentSent ? 'flowing' : 'waiting'
    this.#stopHolding()
    this.#upstream = {}
    this.shape.begin(this.contentSent)
  }

  upstreamHead(headers: IncomingHttpHeaders): void {
    this.#upstream = headers
  }

  take(kind: FrameKind, frame: SseFrame, json: JsonObject | undefined, fresh: Fresh, texts: readonly Segment[]): void {
    if (kind === 'content' && this.#isAdaptive && this.#state === 'holding-answer') this.#holdForAWhile()
    const mustHold = this.#mustHold(kind)
    if (mustHold || this.hasBacklog) {
      const isKept = (frame.source?.events ?? 1) > 1 || this.#mayGoWithPing(json)
      this.#held.add(kind, frame, isKept ? json : undefined, fresh, texts)
      this.#charge()
      if (this.#held.length > this.#options.holdBytesMax) this.#goThrough()
      return
    }
    this.#sendHeld()
    this.#send(kind, frame, json, fresh, texts)
  }

  /** The answer is complete and proven: what is held goes out, and what follows passes through. */
  release(): void {
    this.#stopHolding()
    if (this.shape.isUnchanged) this.#sendHeldAsItCame()
    else this.#sendHeld()
    this.#state = 'through'
  }

  /** In a header if there is still time, else in a comment. */
  doubt(doubt: Doubt): void {
    if (this.#headSent) this.comment(`breakfall doubt ${doubtText(doubt)}`)
    else this.#marks = { [DOUBT]: doubtText(doubt) }
  }

  comment(text: string): void {
    if (this.#headSent && this.shape.withoutComments !== true) this.#write(`: ${text}\n\n`)
  }

  /** An answer went past the limit, and some of it still has to go out before anything else does. */
  get hasBacklog(): boolean {
    return this.#state === 'through' && !this.#held.isEmpty
  }

  /** Part of the backlog: all at once would take the event loop long, and the memory twice. */
  sendBacklog(): void {
    let length = 0
    for (let run = this.#held.first; run !== undefined && length < BACKLOG_BYTES; run = this.#held.first) {
      length += run.length
      this.#held.takeFirst()
      this.#sendRun(run)
    }
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

  /** Makes the move of the table. */
  #mustHold(kind: FrameKind): boolean {
    const isFree = kind === 'tool' && this.#options.hold === 'none'
    const [how, next] = MOVES[this.#state][isFree ? 'item-end' : kind].split(':')
    if (next !== undefined) this.#state = next as State
    return how === 'hold' || (how === 'follow' && !this.#held.isEmpty)
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
    const held = this.#held.takeAll()
    this.#state = this.contentSent ? 'flowing' : 'waiting'
    for (const run of held) {
      if (this.#mustHold(run.kind)) {
        this.#held.keep(run)
        continue
      }
      this.#sendHeld()
      this.#sendRun(run)
    }
    this.flush() // a client that is behind is noticed at the next read
  }

  #sendHeld(): void {
    if (this.#held.isEmpty) return
    for (const run of this.#held.takeAll()) this.#sendRun(run)
  }

  /** I3 */
  #goThrough(): void {
    this.#stopHolding()
    this.#state = 'through'
  }

  #sendRun(run: HeldRun): void {
    const { kind, fresh } = run
    let { texts } = run
    for (const frame of run.frames()) {
      this.#send(kind, frame, run.json ?? this.#jsonOf(frame), fresh, texts)
      texts = []
    }
  }

  /** The whole answer is here, and nothing of it has to be changed. It cannot break any more, so nothing is remembered. */
  #sendHeldAsItCame(): void {
    for (const run of this.#held.takeAll()) {
      if (!this.#headSent) this.#head(clientHeaders(this.#upstream))
      if (run.texts.length > 0 || IS_CONTENT.has(run.kind)) this.contentSent = true
      this.#out.addPiece(run.piece())
    }
  }

  #send(kind: FrameKind, frame: SseFrame, json: JsonObject | undefined, fresh: Fresh, texts: readonly Segment[]): void {
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
    if (!this.#isForgotten) this.#sent.add(segment)
    if (this.#sent.known.length > this.#options.holdBytesMax) this.#isForgotten = true // I3
  }

  /** I3 */
  #charge(): void {
    const more = this.#held.bytes - this.#charged
    if (more < CHARGED_BYTES_MIN) return
    if (!this.#options.memory.take(more))
      throw new Fault('quota_exceeded', {
        phase: 'stream',
        facts: { limit: 'the memory for all requests together' },
        message: { advice: 'Retry when other requests have ended, raise limits.memoryBytesMax, or use hold: tools.' },
      })
    this.#charged += more
  }

  #write(text: string): void {
    // Of an attempt that has answered, though it may break before its content goes out: agents need what is in there.
    if (!this.#headSent) this.#head(clientHeaders(this.#upstream))
    this.#out.add(text)
  }

  #head(headers: ReturnedHeaders): void {
    this.#headSent = true
    this.#sink.head(200, {
      ...headers,
      ...this.#marks,
      ...this.repairs,
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

  /** Only what nothing else waits before. */
  #mayGoWithPing(json: JsonObject | undefined): boolean {
    const { last } = this.#held
    return (last === undefined || last.json !== undefined) && this.shape.opensStream?.(json) === true
  }

  #ping(): void {
    for (let run = this.#held.first; this.shape.opensStream?.(run?.json) === true; run = this.#held.first) {
      this.#held.takeFirst()
      for (const frame of run?.frames() ?? []) {
        const out = this.shape.frame(frame, run?.json, undefined)
        this.#write(typeof out === 'string' ? out : plainFrame(out))
      }
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

/** Of a backlog, in one turn of the event loop. */
const BACKLOG_BYTES = 48 * 1024

/** The budget is asked once for so many. */
const CHARGED_BYTES_MIN = 65_536

function everyKind(move: Move): Readonly<Record<FrameKind, Move>> {
  return {
    lifecycle: move,
    opening: move,
    content: move,
    item: move,
    'item-end': move,
    tool: move,
    tail: move,
  }
}
