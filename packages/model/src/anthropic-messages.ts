/**
 * Reads the events of Anthropic's streaming messages. Types that nobody knows yet are skipped, as the API asks of its
 * clients. The end is `message_stop` after a `stop_reason`; an `error` event throws its Fault.
 */
import { Fault } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { ChunkTemplate } from './chunk-template.ts'
import { inBandError, inBandFault } from './in-band.ts'
import { notJson } from './openai-chat.ts'
import { type AnswerDecoder, AnswerState, type Part, type PartHandler, type TextPart } from './parts.ts'

export class AnthropicMessagesDecoder implements AnswerDecoder {
  readonly state: AnswerState
  json: object | undefined
  readonly #blocks = new Map<number, Part | undefined>()
  readonly #template = new ChunkTemplate()
  /** The part that grew when the template was learnt; its block number is in the template. */
  #templatePart: TextPart | undefined
  readonly #mayGuess: boolean

  constructor(handler: PartHandler, nextPartId: () => string, mayGuess: boolean) {
    this.state = new AnswerState(handler, nextPartId)
    this.#mayGuess = mayGuess
  }

  frame(frame: SseFrame): void {
    this.json = undefined
    if (this.#templatePart !== undefined) {
      const text = this.#template.match(frame.data)
      if (text !== undefined) return this.state.growText(this.#templatePart, text)
    }
    if (frame.data === '[DONE]') return // some translating proxies add it
    const json = parseFrame(frame.data)
    this.json = json
    switch (typeof json.type === 'string' ? json.type : (frame.event ?? '')) {
      case 'message_start':
        this.#usage(json.message?.usage)
        break
      case 'content_block_start':
        this.#start(numberOf(json.index), json.content_block ?? {})
        break
      case 'content_block_delta':
        this.#delta(numberOf(json.index), json.delta ?? {})
        this.#learn(frame.data, this.#blocks.get(numberOf(json.index)), json.delta ?? {})
        break
      case 'message_delta':
        this.#usage(json.usage)
        if (typeof json.delta?.stop_reason === 'string') this.state.finish = finishOf(json.delta.stop_reason)
        break
      case 'message_stop':
        this.state.ended = true
        break
      case 'error':
        throw inBandFault(json)
      default:
        if (inBandError(json) !== undefined) throw inBandFault(json) // llama.cpp: OpenAI's shape on this route too
    }
  }

  whole(json: object): void {
    if (inBandError(json) !== undefined) throw inBandFault(json)
    const { content, stop_reason, usage } = json as WholeAnswer
    if (!Array.isArray(content))
      throw new Fault('model_server_error', { phase: 'stream', facts: { detail: 'the answer has no content' } })
    for (const [index, block] of (content as unknown[]).filter(isBlock).entries()) {
      this.#start(index, { ...block, text: '', thinking: '', input: {} })
      this.#delta(index, wholeDelta(block))
    }
    this.#usage(usage)
    this.state.finish = typeof stop_reason === 'string' ? finishOf(stop_reason) : 'stop'
    this.state.ended = true
  }

  // ---- details ----

  /** Events after this one may be the same but for their text. */
  #learn(data: string, part: Part | undefined, delta: Delta): void {
    if (!this.#mayGuess || part === undefined || part.kind === 'tool') return
    const key = part.kind === 'text' ? 'text' : 'thinking'
    const text = delta[key]
    if (typeof text !== 'string' || text === '' || !this.#template.learn(data, key, text)) return
    this.#templatePart = part
  }

  #start(index: number, block: Block): void {
    this.#templatePart = undefined
    this.#blocks.set(index, this.#open(block))
  }

  #open(block: Block): Part | undefined {
    const { state } = this
    switch (block.type) {
      case 'text':
      case 'thinking': {
        const part = state.openText(block.type === 'text' ? 'text' : 'reasoning')
        const first = block.type === 'text' ? block.text : block.thinking
        if (typeof first === 'string' && first !== '') state.growText(part, first)
        return part
      }
      case 'tool_use': {
        const part = state.openTool(stringOf(block.id), stringOf(block.name))
        // Input arrives in deltas; a server that sends it here at once sends no delta.
        const whole = block.input !== null && typeof block.input === 'object' && Object.keys(block.input).length > 0
        state.growTool(part, whole ? JSON.stringify(block.input) : '')
        return part
      }
      default:
        return undefined // redacted_thinking, server tools, whatever comes next: not ours to show or to run
    }
  }

  #delta(index: number, delta: Delta): void {
    const part = this.#blocks.get(index)
    this.state.progress++
    if (part === undefined) return
    if (part.kind === 'tool') {
      if (typeof delta.partial_json === 'string' && delta.partial_json !== '')
        this.state.growTool(part, delta.partial_json)
      return
    }
    const text = part.kind === 'text' ? delta.text : delta.thinking
    if (typeof text === 'string' && text !== '') this.state.growText(part, text)
  }

  #usage(usage: UsageFrame | undefined): void {
    if (usage === undefined || usage === null) return
    const { input_tokens: fresh, output_tokens: output } = usage
    const cached = numberOf(usage.cache_read_input_tokens) + numberOf(usage.cache_creation_input_tokens)
    this.state.usage = {
      input: typeof fresh === 'number' && fresh + cached > 0 ? fresh + cached : this.state.usage.input,
      output: typeof output === 'number' ? output : this.state.usage.output,
    }
  }
}

/** Anthropic's stop reasons in the words of OpenAI's chat API; one without a counterpart keeps its own. */
const FINISH: Readonly<Record<string, string>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'tool_calls',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  refusal: 'content_filter',
}

const finishOf = (reason: string): string => (Object.hasOwn(FINISH, reason) ? (FINISH[reason] ?? reason) : reason)

type Block = { type?: unknown; text?: unknown; thinking?: unknown; id?: unknown; name?: unknown; input?: unknown }
const isBlock = (value: unknown): value is Block => typeof value === 'object' && value !== null

type Delta = { text?: unknown; thinking?: unknown; partial_json?: unknown; stop_reason?: unknown }
type UsageFrame = {
  input_tokens?: unknown
  output_tokens?: unknown
  cache_read_input_tokens?: unknown
  cache_creation_input_tokens?: unknown
}
type Frame = {
  type?: unknown
  index?: unknown
  message?: { usage?: UsageFrame }
  content_block?: Block
  delta?: Delta
  usage?: UsageFrame
}
type WholeAnswer = { content?: unknown; stop_reason?: unknown; usage?: UsageFrame }

function wholeDelta(block: Block): Delta {
  if (block.type === 'tool_use') return { partial_json: JSON.stringify(block.input ?? {}) }
  return block.type === 'text' ? { text: block.text } : { thinking: block.thinking }
}

function parseFrame(data: string): Frame {
  let json: unknown
  try {
    json = JSON.parse(data)
  } catch (cause) {
    throw notJson(data, cause)
  }
  if (typeof json !== 'object' || json === null) throw notJson(data, undefined)
  return json
}

const numberOf = (value: unknown): number => (typeof value === 'number' ? value : 0)
const stringOf = (value: unknown): string => (typeof value === 'string' ? value : '')
