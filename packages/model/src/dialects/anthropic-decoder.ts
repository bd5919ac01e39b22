/**
 * Reads the events of Anthropic's streaming messages. Unknown types are skipped, as the API asks of its clients. The end is
 * `message_stop` after a `stop_reason`; an `error` event throws its Fault.
 */
import { Fault } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { isObject, type JsonObject, numberOr, objectOr, objectsIn, stringOr } from '../lib/json.ts'
import { ChunkTemplate } from './chunk-template.ts'
import { type DecoderOptions, frameHead } from './dialect.ts'
import { inBandFault, isInBandError, notJson } from './in-band.ts'
import {
  type AnswerDecoder,
  type FrameRun,
  objectArguments,
  type Part,
  type PartHandler,
  ReadAnswer,
  type TextPart,
} from './read-answer.ts'

export class AnthropicMessagesDecoder implements AnswerDecoder {
  readonly answer: ReadAnswer
  json: JsonObject | undefined
  readonly #options: DecoderOptions
  readonly #blocks = new Map<number, Part | undefined>()
  readonly #template = new ChunkTemplate()
  /** The part that grew when the template was learnt; its block number is in the template. */
  #templatePart: TextPart | undefined

  constructor(handler: PartHandler, nextPartId: () => string, options: DecoderOptions) {
    this.answer = new ReadAnswer(handler, nextPartId)
    this.#options = options
  }

  frame(frame: SseFrame): void {
    this.json = undefined
    if (this.#templatePart !== undefined) {
      const text = this.#template.match(frame.data)
      if (text !== undefined) return this.answer.growText(this.#templatePart, text)
    }
    if (frame.data === '[DONE]') return // some translating proxies add it
    const json = parseFrame(frame.data)
    this.json = json
    const { type, index, delta } = json
    switch (typeof type === 'string' ? type : (frame.event ?? '')) {
      case 'message_start':
        this.#usage(objectOr(json['message'])['usage'])
        break
      case 'content_block_start':
        this.#start(numberOr(index), objectOr(json['content_block']))
        break
      case 'content_block_delta':
        this.#delta(numberOr(index), objectOr(delta))
        this.#learn(frame, this.#blocks.get(numberOr(index)), objectOr(delta))
        break
      case 'message_delta': {
        this.#usage(json['usage'])
        const { stop_reason } = objectOr(delta)
        if (typeof stop_reason === 'string') this.#finish(stop_reason)
        break
      }
      case 'message_stop':
        this.answer.ended = true
        break
      case 'error':
        throw inBandFault(json)
      default:
        if (isInBandError(json)) throw inBandFault(json) // llama.cpp: OpenAI's shape on this route too
    }
  }

  run(text: string, from: number): FrameRun | undefined {
    if (this.#templatePart === undefined) return undefined
    const run = this.#template.run(text, from)
    this.json = undefined
    if (run !== undefined) this.answer.growText(this.#templatePart, run.text)
    return run
  }

  whole(json: JsonObject): void {
    if (isInBandError(json)) throw inBandFault(json)
    const { content, stop_reason, usage } = json
    if (!Array.isArray(content))
      throw new Fault('model_server_error', { phase: 'stream', facts: { detail: 'the answer has no content' } })
    for (const [index, block] of objectsIn(content).entries()) {
      this.#start(index, { ...block, text: '', thinking: '', input: {} })
      this.#delta(index, wholeDelta(block))
    }
    this.#usage(usage)
    this.#finish(typeof stop_reason === 'string' ? stop_reason : 'end_turn')
    this.answer.ended = true
  }

  // ---- details ----

  #finish(reason: string): void {
    this.answer.finish = finishOf(reason)
    if (reason === 'stop_sequence') this.answer.isMeant = true
  }

  /** Events after this one may be the same but for their text. */
  #learn(frame: SseFrame, part: Part | undefined, delta: JsonObject): void {
    if (this.#options.everyJson || part === undefined || part.kind === 'tool') return
    const key = part.kind === 'text' ? 'text' : 'thinking'
    const text = delta[key]
    if (typeof text !== 'string' || text === '') return
    if (this.#template.learn(frame.data, key, text, frameHead(frame))) this.#templatePart = part
  }

  #start(index: number, block: JsonObject): void {
    this.#templatePart = undefined
    this.#blocks.set(index, this.#open(block))
  }

  #open(block: JsonObject): Part | undefined {
    const { answer } = this
    const { type, input } = block
    switch (type) {
      case 'text':
      case 'thinking': {
        const part = answer.openText(type === 'text' ? 'text' : 'reasoning')
        const first = stringOr(block[type])
        if (first !== '') answer.growText(part, first)
        return part
      }
      case 'tool_use': {
        const part = answer.openTool(stringOr(block['id']), stringOr(block['name']))
        // Input arrives in deltas; a server that sends it here at once sends no delta.
        answer.growTool(part, objectArguments(input))
        return part
      }
      case 'server_tool_use':
      case 'mcp_tool_use': {
        const name = stringOr(block['name']) || type
        if (type === 'mcp_tool_use' || !READS_ONLY.test(name)) answer.serverTool ??= name
        answer.isMeant = true
        return undefined
      }
      case 'redacted_thinking':
        answer.hasThoughts = true
        return undefined
      default:
        answer.isMeant = true
        return undefined // results of server tools, new types: neither shown nor run
    }
  }

  #delta(index: number, delta: JsonObject): void {
    const part = this.#blocks.get(index)
    this.answer.progress++
    if (delta['type'] === 'citations_delta') this.answer.isMeant = true
    if (part === undefined) return
    if (part.kind === 'tool') {
      const json = stringOr(delta['partial_json'])
      if (json !== '') this.answer.growTool(part, json)
      return
    }
    const text = stringOr(part.kind === 'text' ? delta['text'] : delta['thinking'])
    if (text !== '') this.answer.growText(part, text)
  }

  #usage(usage: unknown): void {
    if (!isObject(usage)) return
    const { input_tokens: fresh, output_tokens: output } = usage
    const { cache_read_input_tokens: cacheRead, cache_creation_input_tokens: cacheWrite } = usage
    const input = numberOr(fresh) + numberOr(cacheRead) + numberOr(cacheWrite)
    // Some servers send zeros with the last event.
    const known = typeof fresh === 'number' && input > 0 ? { input, cacheRead, cacheWrite } : {}
    this.answer.count({ ...known, output })
  }
}

/** Tools that the provider runs and that change nothing: they may run again. */
const READS_ONLY = /^(?:web_search|web_fetch|tool_search|advisor$)/

/** Anthropic's stop reasons under the names of OpenAI's chat API. A reason without a counterpart keeps its name. */
const FINISH: Readonly<Record<string, string>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'tool_calls',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  refusal: 'content_filter',
}

const finishOf = (reason: string): string => (Object.hasOwn(FINISH, reason) ? (FINISH[reason] ?? reason) : reason)

function wholeDelta({ type, input, text, thinking }: JsonObject): JsonObject {
  if (type === 'tool_use') return { partial_json: objectArguments(input) }
  return type === 'text' ? { text } : { thinking }
}

function parseFrame(data: string): JsonObject {
  let json: unknown
  try {
    json = JSON.parse(data)
  } catch (cause) {
    throw notJson(data, cause)
  }
  if (!isObject(json)) throw notJson(data, undefined)
  return json
}
