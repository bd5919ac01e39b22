/** Anthropic's events as the client gets them: one `message_start`, blocks numbered on over all attempts, each closed once. */
import { Fault } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { type JsonObject, objectOr, stringOr } from '../lib/json.ts'
import { type ClientShape, type Fresh, plainFrame } from './dialect.ts'
import { extrasIn } from './extras.ts'

export class AnthropicShape implements ClientShape {
  canHeal = true
  #healing = false
  #isStarted = false
  /** The client's last block: its number, kind, and whether it is still open. */
  #last = -1
  #lastType: unknown
  #isOpen = false
  /** It is for text or thoughts, and has none yet. */
  #isEmpty = false
  #isSigned = false
  /** Types of the blocks of this attempt that were skipped, by the server's number. */
  #skipped = new Map<number, unknown>()
  /** The client's number of each block of this attempt. */
  #numbers = new Map<number, number>()

  begin(healing: boolean): void {
    this.#healing = healing
    this.#skipped = new Map()
    this.#numbers = new Map()
  }

  skip(json: JsonObject | undefined): boolean {
    if (json === undefined) return true
    const { type, delta } = json
    if (type === 'content_block_delta') return REPEATED_DELTAS.has(objectOr(delta)['type'])
    if (type !== 'content_block_start') return REPEATED_EVENTS.has(type)
    const block = objectOr(json['content_block'])
    if (!REPEATED_BLOCKS.has(block['type']) || extrasIn(block, BLOCK_KEYS).length > 0) throw this.#divergence()
    this.#skipped.set(indexOf(json), block['type'])
    return true
  }

  frame(frame: SseFrame, json: JsonObject | undefined, fresh: Fresh): SseFrame | string {
    switch (json?.['type']) {
      case 'message_start': {
        if (this.#isStarted) return ''
        this.#isStarted = true
        return frame
      }
      case 'content_block_start':
        return this.#start(frame, json, fresh)
      case 'content_block_delta':
        return this.#delta(frame, json, fresh)
      case 'content_block_stop':
        return this.#stop(frame, json)
      case 'message_delta': {
        if (this.#isWaiting) throw this.#divergence()
        return frame
      }
      default:
        return frame
    }
  }

  get isUnchanged(): boolean {
    return !this.#healing
  }

  ping(): string {
    return 'event: ping\ndata: {"type":"ping"}\n\n'
  }

  ending(): string {
    return '' // `message_stop` is the proof itself: an answer without it is not complete
  }

  #start(frame: SseFrame, event: JsonObject, fresh: Fresh): SseFrame | string {
    const block = objectOr(event['content_block'])
    const { type } = block
    const text = stringOr(block[type === 'thinking' ? 'thinking' : 'text'])
    if (this.#isWaiting && type !== this.#lastType) throw this.#divergence()
    // The client has the beginning of this text and the block that it is in, or only a block for it.
    if ((fresh !== undefined || this.#isWaiting) && this.skip(event)) {
      if (fresh === undefined) this.#numbers.set(indexOf(event), this.#last)
      return text === '' ? '' : this.#delta(frame, startAsDelta(event, text), fresh)
    }
    if (type !== 'text' && type !== 'thinking' && type !== 'tool_use') this.canHeal = false
    const upstream = indexOf(event)
    const number = this.#healing ? this.#last + 1 : upstream
    this.#numbers.set(upstream, number)
    this.#last = number
    this.#lastType = type
    this.#isOpen = true
    this.#isEmpty = REPEATED_BLOCKS.has(type) && text === ''
    this.#isSigned = false
    return numbered(frame, event, number)
  }

  #delta(frame: SseFrame, event: JsonObject, fresh: Fresh): SseFrame | string {
    const delta = objectOr(event['delta'])
    const kind = delta['type']
    const isSignature = kind === 'signature_delta'
    const text = stringOr(delta['text'] ?? delta['thinking'])
    if (!COMPARED_DELTAS.has(kind)) this.canHeal = false
    if (!this.#healing) {
      this.#isEmpty &&= text === ''
      this.#isSigned ||= isSignature
      return frame
    }
    const upstream = indexOf(event)
    const number = this.#numbers.get(upstream) ?? this.#adopt(upstream)
    const isNew = (fresh === undefined ? text : fresh.join('')) !== ''
    if (number !== this.#last || !this.#isOpen) {
      if (!isNew && REPEATED_DELTAS.has(kind)) return ''
      // The client's block is closed and this one adds to it: another answer, whose thoughts no signature would fit.
      throw this.#divergence()
    }
    if (isNew && this.#isSigned && kind === 'thinking_delta') throw this.#divergence() // nor these
    if (isSignature && this.#isSigned) return '' // the same thoughts have one signature, whichever it is
    this.#isSigned ||= isSignature
    this.#isEmpty &&= !isNew
    return eventFrame({ ...event, index: number, delta: fresh === undefined ? delta : freshDelta(delta, fresh) })
  }

  #stop(frame: SseFrame, event: JsonObject): SseFrame | string {
    const upstream = indexOf(event)
    const number = this.#healing ? (this.#numbers.get(upstream) ?? this.#adopt(upstream)) : upstream
    if (this.#healing && (number !== this.#last || !this.#isOpen)) return ''
    this.#isOpen = false
    return numbered(frame, event, number)
  }

  /** The client's block waits for the text of this attempt. Closed without one, it would make the client's next request invalid. */
  get #isWaiting(): boolean {
    return this.#healing && this.#isOpen && this.#isEmpty
  }

  #divergence(): Fault {
    this.canHeal = false
    return new Fault('model_stream_interrupted', {
      phase: 'stream',
      errorRaw: 'the answer was asked for again and continued in a block that had been closed, or with another one',
    })
  }

  /** A block whose beginning the client holds is the client's last one, if it is of the same kind and has some of it. */
  #adopt(upstream: number): number {
    const isSame = !this.#isEmpty && this.#skipped.has(upstream) && this.#skipped.get(upstream) === this.#lastType
    const number = isSame ? this.#last : -1
    if (isSame) this.#numbers.set(upstream, number)
    return number
  }
}

// ---- details ----

const indexOf = (event: JsonObject): number => Number(event['index'])

function startAsDelta({ index, content_block }: JsonObject, text: string): JsonObject {
  const key = objectOr(content_block)['type'] === 'thinking' ? 'thinking' : 'text'
  return { type: 'content_block_delta', index, delta: { type: `${key}_delta`, [key]: text } }
}

const numbered = (frame: SseFrame, event: JsonObject, number: number): SseFrame | string =>
  number === event['index'] ? frame : eventFrame({ ...event, index: number })

const eventFrame = (event: JsonObject): string =>
  plainFrame({ event: stringOr(event['type']), data: JSON.stringify(event) })

/** What another attempt says again, and the client has. */
const REPEATED_EVENTS: ReadonlySet<unknown> = new Set(['message_start', 'content_block_stop', 'message_delta', 'ping'])
const REPEATED_BLOCKS: ReadonlySet<unknown> = new Set(['text', 'thinking'])
const REPEATED_DELTAS: ReadonlySet<unknown> = new Set(['text_delta', 'thinking_delta', 'signature_delta'])
/** Text and thoughts are compared with another attempt, a signature belongs to them, a call is held until it is complete. */
const COMPARED_DELTAS: ReadonlySet<unknown> = new Set([...REPEATED_DELTAS, 'input_json_delta'])
const BLOCK_KEYS: ReadonlySet<string> = new Set(['type', 'text', 'thinking'])

function freshDelta(delta: JsonObject, fresh: NonNullable<Fresh>): JsonObject {
  const key = 'thinking' in delta ? 'thinking' : 'text'
  return key in delta ? { ...delta, [key]: fresh.join('') } : delta
}
