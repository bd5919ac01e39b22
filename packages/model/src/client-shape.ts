/**
 * How frames look to the client, also after the answer was healed by another attempt: one identity, one beginning, blocks
 * numbered on, nothing opened or closed twice. One shape lives as long as the client's stream.
 */
import { Fault } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import type { ApiName } from './answer.ts'
import type { SegmentKind } from './machine/prefix-gate.ts'

/** What of a frame's text is new; undefined where all of it is. */
export type Fresh = ReadonlyMap<SegmentKind, string> | undefined

export type ClientShape = {
  /** Another attempt begins; `healing` where the client already holds a part of the answer. */
  begin(healing: boolean): void
  /** A frame of the attempt that says nothing new. */
  skip(json: object | undefined): void
  /** The frame as the client gets it; empty where it has it already. */
  frame(frame: SseFrame, json: object | undefined, fresh: Fresh): string
  /** What a whole answer ends with, where it has not come. */
  ending(): string
  readonly ping: string
  /** False where something went out that cannot be compared with another attempt. */
  readonly canHeal: boolean
}

export function createShape(api: ApiName): ClientShape {
  return api === 'openai-chat' ? new OpenAiShape() : new AnthropicShape()
}

/** One event as it came. Data of one line, which is nearly all, is not split and joined. */
export function plainFrame(frame: SseFrame): string {
  const event = frame.event === undefined ? '' : `event: ${frame.event}\n`
  const data = frame.data.includes('\n') ? frame.data.replaceAll('\n', '\ndata: ') : frame.data
  return `${event}data: ${data}\n\n`
}

// ---- OpenAI's chat ----

type ChatChunk = {
  id?: unknown
  model?: unknown
  created?: unknown
  choices?: { index?: unknown; delta?: Record<string, unknown>; logprobs?: unknown }[]
}

class OpenAiShape implements ClientShape {
  readonly ping = ': ping\n\n'
  canHeal = true
  #identity: { id?: unknown; model?: unknown; created?: unknown } | undefined
  #healing = false
  #isEnded = false

  begin(healing: boolean): void {
    this.#healing = healing
    if (!healing) this.#identity = undefined
  }

  skip(): void {
    return
  }

  frame(frame: SseFrame, json: object | undefined, fresh: Fresh): string {
    if (frame.data === '[DONE]') this.#isEnded = true
    if (json === undefined) return plainFrame(frame)
    const chunk = json as ChatChunk
    if (Array.isArray(chunk.choices) && (chunk.choices.length > 1 || saysMore(chunk.choices[0]?.delta)))
      this.canHeal = false
    if (this.#identity === undefined) {
      const { id, model, created } = chunk
      this.#identity = { id, model, created }
      if ((chunk.choices?.[0]?.index ?? 0) !== 0) this.canHeal = false
    }
    if (!this.#healing) {
      if ((chunk.choices?.[0]?.index ?? 0) !== 0) this.canHeal = false
      return plainFrame(frame)
    }
    const same = { ...chunk, ...this.#identity }
    return plainFrame({ data: JSON.stringify(fresh === undefined ? same : withFresh(same, fresh)) })
  }

  ending(): string {
    return this.#isEnded ? '' : 'data: [DONE]\n\n'
  }
}

const TEXT_KEYS: readonly string[] = ['content', 'reasoning', 'reasoning_content', 'refusal']
/** Compared with another attempt, held until the answer is whole, or the same in each attempt. */
const KNOWN_KEYS: ReadonlySet<string> = new Set([...TEXT_KEYS, 'role', 'tool_calls', 'function_call'])

const isSaid = (value: unknown): boolean =>
  value !== undefined && value !== null && value !== '' && !(Array.isArray(value) && value.length === 0)

/** A frame without text that says something else (annotations, audio): what nobody can compare must not come twice. */
function saysMore(delta: Record<string, unknown> | undefined): boolean {
  if (typeof delta !== 'object' || delta === null || TEXT_KEYS.some((key) => isSaid(delta[key]))) return false
  return Object.entries(delta).some(([key, value]) => !KNOWN_KEYS.has(key) && isSaid(value))
}

/** The chunk with only what is new of its text, and without what belongs to all of it. */
function withFresh(chunk: ChatChunk, fresh: ReadonlyMap<SegmentKind, string>): ChatChunk {
  const [first, ...rest] = chunk.choices ?? []
  if (first === undefined) return chunk
  const delta: Record<string, unknown> = { ...first.delta }
  const reasoningKey = 'reasoning' in delta ? 'reasoning' : 'reasoning_content'
  const textKey = isSaid(delta['refusal']) ? 'refusal' : 'content'
  for (const key of [...TEXT_KEYS, 'role', 'reasoning_details']) delete delta[key]
  if (fresh.has('reasoning')) delta[reasoningKey] = fresh.get('reasoning')
  if (fresh.has('text')) delta[textKey] = fresh.get('text')
  const choice = 'logprobs' in first ? { ...first, delta, logprobs: null } : { ...first, delta }
  return { ...chunk, choices: [choice, ...rest] }
}

// ---- Anthropic's messages ----

type Block = { readonly type?: unknown }
type MessageEvent = {
  type?: unknown
  index?: unknown
  content_block?: Block
  delta?: Record<string, unknown> | undefined
}

class AnthropicShape implements ClientShape {
  readonly ping = 'event: ping\ndata: {"type":"ping"}\n\n'
  canHeal = true
  #healing = false
  #isStarted = false
  /** The client's last block: its number, kind, and whether it is still open. */
  #last = -1
  #lastType: unknown
  #isOpen = false
  #isSigned = false
  /** Of this attempt: blocks that were skipped, and the client's number of each block. */
  #skipped = new Map<number, Block>()
  #numbers = new Map<number, number>()

  begin(healing: boolean): void {
    this.#healing = healing
    this.#skipped = new Map()
    this.#numbers = new Map()
  }

  skip(json: object | undefined): void {
    const event = (json ?? {}) as MessageEvent
    if (event.type === 'content_block_start') this.#skipped.set(Number(event.index), event.content_block ?? {})
  }

  frame(frame: SseFrame, json: object | undefined, fresh: Fresh): string {
    const event = json as MessageEvent | undefined
    switch (event?.type) {
      case 'message_start': {
        if (this.#isStarted) return ''
        this.#isStarted = true
        return plainFrame(frame)
      }
      case 'content_block_start':
        return this.#start(frame, event)
      case 'content_block_delta':
        return this.#delta(frame, event, fresh)
      case 'content_block_stop':
        return this.#stop(frame, event)
      default:
        return plainFrame(frame)
    }
  }

  ending(): string {
    return '' // `message_stop` is the proof itself: an answer without it is not whole
  }

  #start(frame: SseFrame, event: MessageEvent): string {
    const type = event.content_block?.type
    if (type !== 'text' && type !== 'thinking' && type !== 'tool_use') this.canHeal = false
    const number = this.#healing ? this.#last + 1 : Number(event.index)
    this.#numbers.set(Number(event.index), number)
    this.#last = number
    this.#lastType = type
    this.#isOpen = true
    this.#isSigned = false
    return this.#numbered(frame, event, number)
  }

  #delta(frame: SseFrame, event: MessageEvent, fresh: Fresh): string {
    const kind = event.delta?.['type']
    const isSignature = kind === 'signature_delta'
    if (!COMPARED_DELTAS.has(kind)) this.canHeal = false
    if (!this.#healing) {
      this.#isSigned ||= isSignature
      return plainFrame(frame)
    }
    const upstream = Number(event.index)
    const number = this.#numbers.get(upstream) ?? this.#adopt(upstream)
    if (number !== this.#last || !this.#isOpen) {
      if (!isSaid(event.delta?.['text'] ?? event.delta?.['thinking'])) return ''
      // The client's block is closed and this one goes on: another answer, and thoughts that no signature would fit.
      this.canHeal = false
      throw new Fault('model_stream_interrupted', {
        phase: 'stream',
        errorRaw: 'the answer was asked for again and went on in a block that had been closed',
      })
    }
    const delta = fresh === undefined ? event.delta : freshDelta(event.delta ?? {}, fresh)
    if (isSignature && this.#isSigned) return '' // the same thoughts have one signature, whichever it is
    this.#isSigned ||= isSignature
    return this.#event({ ...event, index: number, delta })
  }

  #stop(frame: SseFrame, event: MessageEvent): string {
    const upstream = Number(event.index)
    const number = this.#healing ? (this.#numbers.get(upstream) ?? this.#adopt(upstream)) : upstream
    if (this.#healing && (number !== this.#last || !this.#isOpen)) return ''
    this.#isOpen = false
    return this.#numbered(frame, event, number)
  }

  /** A block whose beginning the client holds is the client's last one, if it is of the same kind. */
  #adopt(upstream: number): number {
    const isSame = this.#skipped.get(upstream)?.type === this.#lastType
    const number = isSame ? this.#last : -1
    if (isSame) this.#numbers.set(upstream, number)
    return number
  }

  #numbered(frame: SseFrame, event: MessageEvent, number: number): string {
    return number === event.index ? plainFrame(frame) : this.#event({ ...event, index: number })
  }

  #event(event: MessageEvent): string {
    return plainFrame({ event: String(event.type as string), data: JSON.stringify(event) })
  }
}

/** Text and thoughts are compared with another attempt, a signature goes with them, a call is held until it is whole. */
const COMPARED_DELTAS: ReadonlySet<unknown> = new Set([
  'text_delta',
  'thinking_delta',
  'signature_delta',
  'input_json_delta',
])

function freshDelta(delta: Record<string, unknown>, fresh: ReadonlyMap<SegmentKind, string>): Record<string, unknown> {
  if (fresh.has('text')) return { ...delta, text: fresh.get('text') }
  return fresh.has('reasoning') ? { ...delta, thinking: fresh.get('reasoning') } : delta
}
