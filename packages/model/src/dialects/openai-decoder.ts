/**
 * Reads the frames of OpenAI's streaming chat completions, as OpenAI and its many imitators send them.
 *
 * I1  At most one JSON.parse per frame, and none if only the text is new. What a frame says is handed on at once.
 * I2  An error inside the stream and a frame that is not JSON throw a Fault. Once every choice has its finish reason, nothing
 *     that follows can invalidate the answer.
 */
import { Fault } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { isObject, type JsonObject, objectOr, objectsIn, parsedOr, stringOr } from '../lib/json.ts'
import { ChunkTemplate } from './chunk-template.ts'
import { type DecoderOptions, frameHead } from './dialect.ts'
import { extrasIn } from './extras.ts'
import { inBandFault, isInBandError, notJson } from './in-band.ts'
import {
  type AnswerDecoder,
  deciding,
  finishNamed,
  type FrameRun,
  objectArguments,
  type PartHandler,
  ReadAnswer,
  type TextPart,
  type ToolPart,
} from './read-answer.ts'

export class OpenAiChatDecoder implements AnswerDecoder {
  readonly answer: ReadAnswer
  json: JsonObject | undefined
  readonly #options: DecoderOptions
  readonly #choices: Choice[] = []
  readonly #template = new ChunkTemplate()
  /** The part that grew when the template was learnt. */
  #templatePart: TextPart | undefined

  constructor(handler: PartHandler, nextPartId: () => string, options: DecoderOptions) {
    this.answer = new ReadAnswer(handler, nextPartId)
    this.#options = options
  }

  frame(frame: SseFrame): void {
    const { answer } = this
    this.json = undefined
    const open = this.#choices[0]?.open
    if (open !== undefined && open === this.#templatePart) {
      const text = this.#template.match(frame.data)
      if (text !== undefined) return answer.growText(open, text) // I1
    }
    if (frame.data === '[DONE]') {
      answer.ended = true
      // Servers have been seen to give one choice when more were asked for: those that came are the answer.
      if (this.#choices.length > 0 && this.#isEachFinished) answer.finish = this.#finish()
      return
    }
    const json = parseFrame(frame.data, answer.finish !== null)
    if (json === undefined) return
    this.json = json
    if (isInBandError(json) && answer.finish === null) throw inBandFault(json) // I2
    const choices = objectsIn(json['choices'])
    for (const choice of choices) this.#choice(choice, 'delta')
    const { usage } = json
    if (isObject(usage)) this.#usage(usage)
    else if (choices.length === 1 && choices[0] !== undefined) this.#learn(frame, choices[0])
  }

  run(text: string, from: number): FrameRun | undefined {
    const open = this.#choices[0]?.open
    if (open === undefined || open !== this.#templatePart) return undefined
    const run = this.#template.run(text, from)
    this.json = undefined
    if (run !== undefined) this.answer.growText(open, run.text)
    return run
  }

  whole(json: JsonObject): void {
    if (isInBandError(json)) throw inBandFault(json)
    const { choices, usage } = json
    if (!Array.isArray(choices))
      throw new Fault('model_server_error', { phase: 'stream', facts: { detail: 'the answer has no choices' } })
    for (const choice of objectsIn(choices)) this.#choice(choice, 'message')
    if (isObject(usage)) this.#usage(usage)
    // A document that parses was sent to its end, whether or not it names a reason.
    this.answer.finish ??= this.answer.tools.length > 0 ? 'tool_calls' : 'stop'
    this.answer.ended = true
  }

  // ---- details ----

  /** Frames after this one may be the same but for their text. */
  #learn(frame: SseFrame, { delta, finish_reason }: JsonObject): void {
    if (this.#options.everyJson || finish_reason != null || !isObject(delta) || this.#choices.length !== 1) return
    const said = TEXT_KEYS.filter((key) => delta[key] != null && delta[key] !== '')
    const [key] = said
    if (key === undefined || said.length > 1 || delta['tool_calls'] != null || delta['function_call'] != null) return
    const text = delta[key]
    if (typeof text !== 'string' || !this.#template.learn(frame.data, key, text, frameHead(frame))) return
    this.#templatePart = this.#choices[0]?.open
  }

  #choice(choice: JsonObject, key: 'delta' | 'message'): void {
    const { index, finish_reason } = choice
    const own = this.#choiceAt(typeof index === 'number' ? index : 0)
    const delta = choice[key] ?? choice['delta'] ?? choice['message']
    if (isObject(delta)) this.#delta(own, delta)
    if (typeof finish_reason !== 'string' || finish_reason === '') return
    own.finish = finish_reason
    if (this.#choices.length >= this.#options.choices && this.#isEachFinished) this.answer.finish = this.#finish()
  }

  #delta(own: Choice, delta: JsonObject): void {
    const { content, refusal, tool_calls, function_call } = delta
    // DeepSeek, vLLM, llama.cpp and SGLang say `reasoning_content`; OpenRouter, Ollama and newer vLLM `reasoning`.
    const reasoning = delta['reasoning_content'] ?? delta['reasoning']
    this.#text(own, 'reasoning', reasoning)
    if (Array.isArray(content)) this.#pieces(own, content)
    else this.#text(own, 'text', content)
    this.#text(own, 'text', refusal, true)
    if (!this.answer.isMeant) this.answer.isMeant = extrasIn(delta, KNOWN_KEYS).length > 0
    for (const call of objectsIn(tool_calls)) this.#tool(own, call)
    if (isObject(function_call)) this.#tool(own, { index: 0, function: function_call })
  }

  #text(own: Choice, kind: TextPart['kind'], text: unknown, isRefusal = false): void {
    if (typeof text !== 'string' || text === '') return
    let part = own.open
    if (part === undefined || part.kind !== kind || part.isRefusal !== isRefusal)
      part = own.open = this.answer.openText(kind, isRefusal)
    this.answer.growText(part, text)
  }

  /** Mistral's thinking models send content as a list of typed pieces. */
  #pieces(own: Choice, pieces: readonly unknown[]): void {
    for (const { type, text, thinking } of objectsIn(pieces)) {
      if (type === 'text') this.#text(own, 'text', text)
      else if (type !== 'thinking') this.answer.isMeant = true // a picture, a reference
      if (type !== 'thinking') continue
      if (!Array.isArray(thinking)) this.#text(own, 'reasoning', thinking)
      for (const thought of objectsIn(thinking)) this.#text(own, 'reasoning', thought['text'])
    }
  }

  #tool(own: Choice, call: JsonObject): void {
    const named = objectOr(call['function'])
    const [id, name] = [stringOr(call['id']), stringOr(named['name'])]
    const index = typeof call['index'] === 'number' ? call['index'] : undefined
    const more = argumentsOf(named['arguments'])
    const known = index === undefined ? own.lastCall : own.calls[index]
    let part = known
    if (part === undefined || isAnotherCall(part, id, name, more)) {
      own.open = undefined
      part = this.answer.openTool(id, name)
      // The same name again, without an id or arguments: a second call, or the first one's name repeated. It never runs as it is.
      part.isCut = known?.tool === name && id === ''
      own.lastCall = part
      if (index !== undefined) own.calls[index] = part
    } else {
      if (part.callId === '') part.callId = id
      if (part.tool === '') part.tool = name
    }
    if (more !== '') part.isCut = false
    this.answer.growTool(part, more)
  }

  #choiceAt(index: number): Choice {
    const known = this.#choices.find((choice) => choice.index === index)
    if (known !== undefined) return known
    const made: Choice = { index, finish: null, open: undefined, calls: [], lastCall: undefined }
    this.#choices.push(made)
    this.answer.choices = Math.max(this.answer.choices, index + 1)
    this.answer.finish = null
    return made
  }

  get #isEachFinished(): boolean {
    return this.#choices.every(({ finish }) => finish !== null)
  }

  #finish(): string {
    const isAtLimit = ({ finish }: Choice): boolean => finishNamed(finish ?? '') === 'length'
    return finishNamed(deciding(this.#choices, this.answer, isAtLimit)?.finish ?? 'stop')
  }

  #usage({ prompt_tokens: input, completion_tokens: output, ...more }: JsonObject): void {
    const { cached_tokens, cache_write_tokens: cacheWrite } = objectOr(more['prompt_tokens_details']) // the second: OpenRouter
    this.answer.count({ input, output, cacheRead: cached_tokens ?? more['prompt_cache_hit_tokens'], cacheWrite }) // DeepSeek
  }
}

/** A thought may be signed only. Anything else is a part of the answer. */
const KNOWN_KEYS: ReadonlySet<string> = new Set([
  'role',
  'content',
  'reasoning_content',
  'reasoning',
  'reasoning_details',
  'refusal',
  'tool_calls',
  'function_call',
])

const TEXT_KEYS = ['content', 'reasoning_content', 'reasoning', 'refusal'] as const

type Choice = {
  readonly index: number
  finish: string | null
  open: TextPart | undefined
  /** The call that came last at each index, which may be any number. */
  readonly calls: ToolPart[]
  /** The call that came last, for servers that give calls no index. */
  lastCall: ToolPart | undefined
}

/**
 * Some servers give every call the index 0, or none. Another id with a name is another call. Without ids another name is, and so is
 * the same name once the arguments are whole: some servers repeat the name while the arguments arrive.
 */
function isAnotherCall(part: ToolPart, id: string, name: string, more: string): boolean {
  if (name === '' || part.tool === '') return false
  if (id !== '' && part.callId !== '') return part.callId !== id
  if (part.tool !== name) return true
  return (more === '' || more.trimStart().startsWith('{')) && part.arguments !== '' && isWhole(part.arguments)
}

function parseFrame(data: string, isOver: boolean): JsonObject | undefined {
  let json: unknown
  try {
    json = JSON.parse(data)
  } catch (cause) {
    if (isOver) return undefined // I2
    throw notJson(data, cause)
  }
  if (isObject(json)) return json
  if (isOver) return undefined
  throw notJson(data, undefined)
}

/** Ollama has been seen to send arguments as an object instead of a string. */
const argumentsOf = (value: unknown): string => (typeof value === 'string' ? value : objectArguments(value))

const isWhole = (json: string): boolean => isObject(parsedOr(json))
