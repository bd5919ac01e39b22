/**
 * Reads the frames of OpenAI's streaming chat completions, as OpenAI and its many imitators send them.
 *
 * I1  At most one JSON.parse per frame, and none where only the text is new; what a frame says is handed on at once.
 * I2  An error inside the stream and a frame that is not JSON throw a Fault. Once every choice has its finish reason,
 *     what comes after cannot take the answer back.
 */
import { Fault, redactStart } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { ChunkTemplate } from './chunk-template.ts'
import { inBandError, inBandFault } from './in-band.ts'
import { type AnswerDecoder, AnswerState, type PartHandler, type TextPart, type ToolPart } from './parts.ts'

export class OpenAiChatDecoder implements AnswerDecoder {
  readonly state: AnswerState
  json: object | undefined
  readonly #choices: Choice[] = []
  readonly #template = new ChunkTemplate()
  /** The part that grew when the template was learnt. */
  #templatePart: TextPart | undefined
  readonly #mayGuess: boolean
  readonly #choicesMin: number

  constructor(handler: PartHandler, nextPartId: () => string, mayGuess: boolean, choicesMin: number) {
    this.state = new AnswerState(handler, nextPartId)
    this.#mayGuess = mayGuess
    this.#choicesMin = choicesMin
  }

  frame(frame: SseFrame): void {
    const { state } = this
    this.json = undefined
    const open = this.#choices[0]?.open
    if (open !== undefined && open === this.#templatePart) {
      const text = this.#template.match(frame.data)
      if (text !== undefined) return state.growText(open, text) // I1
    }
    if (frame.data === '[DONE]') {
      state.ended = true
      // Servers have been seen to give one choice where more were asked for: those that came are the answer.
      if (this.#choices.length > 0 && this.#choices.every(({ finish }) => finish !== null))
        state.finish = this.#finish()
      return
    }
    const json = parseFrame(frame.data, state.finish !== null)
    if (json === undefined) return
    this.json = json
    if (inBandError(json) !== undefined && state.finish === null) throw inBandFault(json) // I2
    const { choices, usage } = json
    if (Array.isArray(choices)) for (const choice of choices) if (isObject(choice)) this.#choice(choice, 'delta')
    if (isObject(usage)) this.#usage(usage)
    else if (Array.isArray(choices) && choices.length === 1 && isObject<ChoiceFrame>(choices[0]))
      this.#learn(frame.data, choices[0])
  }

  whole(json: object): void {
    if (inBandError(json) !== undefined) throw inBandFault(json)
    const { choices, usage } = json as Frame
    if (!Array.isArray(choices))
      throw new Fault('model_server_error', { phase: 'stream', facts: { detail: 'the answer has no choices' } })
    for (const choice of choices) if (isObject(choice)) this.#choice(choice, 'message')
    if (isObject(usage)) this.#usage(usage)
    // A document that parses was sent to its end, whether or not it names a reason.
    this.state.finish ??= this.state.tools.length > 0 ? 'tool_calls' : 'stop'
    this.state.ended = true
  }

  // ---- details ----

  /** Frames after this one may be the same but for their text. */
  #learn(data: string, choice: ChoiceFrame): void {
    const { delta, finish_reason } = choice
    if (!this.#mayGuess || finish_reason != null || !isObject<DeltaFrame>(delta) || this.#choices.length !== 1) return
    const said = TEXT_KEYS.filter((key) => delta[key] != null && delta[key] !== '')
    const [key] = said
    if (key === undefined || said.length > 1 || delta.tool_calls != null || delta.function_call != null) return
    const text = delta[key]
    if (typeof text === 'string' && this.#template.learn(data, key, text)) this.#templatePart = this.#choices[0]?.open
  }

  #choice(choice: ChoiceFrame, key: 'delta' | 'message'): void {
    const own = this.#choiceAt(typeof choice.index === 'number' ? choice.index : 0)
    const delta = choice[key] ?? choice.delta ?? choice.message
    if (isObject(delta)) this.#delta(own, delta)
    if (typeof choice.finish_reason === 'string' && choice.finish_reason !== '') {
      own.finish = choice.finish_reason
      const isEach = this.#choices.length >= this.#choicesMin && this.#choices.every(({ finish }) => finish !== null)
      if (isEach) this.state.finish = this.#finish()
    }
  }

  #delta(own: Choice, delta: DeltaFrame): void {
    const { content, refusal, tool_calls, function_call } = delta
    // DeepSeek, vLLM, llama.cpp and SGLang say `reasoning_content`; OpenRouter, Ollama and newer vLLM `reasoning`.
    const reasoning = delta.reasoning_content ?? delta.reasoning
    if (typeof reasoning === 'string' && reasoning !== '') this.#text(own, 'reasoning', reasoning)
    if (typeof content === 'string') {
      if (content !== '') this.#text(own, 'text', content)
    } else if (Array.isArray(content)) this.#pieces(own, content)
    if (typeof refusal === 'string' && refusal !== '') this.#text(own, 'text', refusal)
    if (Array.isArray(tool_calls)) for (const call of tool_calls) if (isObject(call)) this.#tool(own, call)
    if (isObject(function_call)) this.#tool(own, { index: 0, function: function_call })
  }

  #text(own: Choice, kind: 'text' | 'reasoning', text: string): void {
    let part = own.open
    if (part === undefined || part.kind !== kind) part = own.open = this.state.openText(kind)
    this.state.growText(part, text)
  }

  /** Mistral's thinking models send content as a list of typed pieces. */
  #pieces(own: Choice, pieces: readonly unknown[]): void {
    for (const piece of pieces) {
      if (!isObject(piece)) continue
      const { type, text, thinking } = piece as { type?: unknown; text?: unknown; thinking?: unknown }
      if (type === 'text' && typeof text === 'string' && text !== '') this.#text(own, 'text', text)
      if (type !== 'thinking') continue
      for (const thought of (Array.isArray(thinking) ? thinking : [{ text: thinking }]) as unknown[]) {
        const said = isObject<{ text?: unknown }>(thought) ? thought.text : undefined
        if (typeof said === 'string' && said !== '') this.#text(own, 'reasoning', said)
      }
    }
  }

  #tool(own: Choice, call: ToolFrame): void {
    const id = typeof call.id === 'string' ? call.id : ''
    const name = typeof call.function?.name === 'string' ? call.function.name : ''
    const index = typeof call.index === 'number' ? call.index : undefined
    let part = own.calls.findLast((known) => index === undefined || known.index === index)?.part
    // Some servers give every call the index 0, or none: another id with a name is another call.
    if (part === undefined || (id !== '' && name !== '' && part.callId !== '' && part.callId !== id)) {
      own.open = undefined
      part = this.state.openTool(id, name)
      own.calls.push({ index, part })
    } else {
      if (part.callId === '') part.callId = id
      if (part.tool === '') part.tool = name
    }
    this.state.growTool(part, argumentsOf(call))
  }

  #choiceAt(index: number): Choice {
    const known = this.#choices.find((choice) => choice.index === index)
    if (known !== undefined) return known
    const made: Choice = { index, finish: null, open: undefined, calls: [] }
    this.#choices.push(made)
    this.state.finish = null
    return made
  }

  #finish(): string {
    const reason = (this.#choices[0]?.finish ?? 'stop').toLowerCase() // Gemini's own names are in capitals
    return reason === 'function_call' ? 'tool_calls' : reason
  }

  #usage(usage: UsageFrame): void {
    const { prompt_tokens: input, completion_tokens: output } = usage
    this.state.usage = {
      input: typeof input === 'number' ? input : this.state.usage.input,
      output: typeof output === 'number' ? output : this.state.usage.output,
    }
  }
}

const TEXT_KEYS = ['content', 'reasoning_content', 'reasoning', 'refusal'] as const

type CallSlot = { readonly index: number | undefined; readonly part: ToolPart }
type Choice = { readonly index: number; finish: string | null; open: TextPart | undefined; readonly calls: CallSlot[] }

type Frame = { readonly choices?: unknown; readonly usage?: unknown }
type ChoiceFrame = {
  readonly index?: unknown
  delta?: DeltaFrame
  message?: DeltaFrame
  readonly finish_reason?: unknown
}
type DeltaFrame = {
  readonly content?: unknown
  readonly refusal?: unknown
  readonly reasoning_content?: unknown
  readonly reasoning?: unknown
  readonly tool_calls?: unknown
  readonly function_call?: { name?: unknown; arguments?: unknown }
}
type ToolFrame = {
  readonly index?: unknown
  readonly id?: unknown
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown }
}
type UsageFrame = { readonly prompt_tokens?: unknown; readonly completion_tokens?: unknown }

function parseFrame(data: string, isOver: boolean): Frame | undefined {
  try {
    const json: unknown = JSON.parse(data)
    if (isObject(json)) return json
  } catch (cause) {
    if (isOver) return undefined // I2
    throw notJson(data, cause)
  }
  if (isOver) return undefined
  throw notJson(data, undefined)
}

export function notJson(data: string, cause: unknown): Fault {
  return new Fault('model_stream_interrupted', {
    phase: 'stream',
    errorRaw: `a frame of the stream is not the JSON it should be: ${redactStart(data, 200)}`,
    cause,
  })
}

/** Ollama has been seen to send arguments as an object instead of a string. */
function argumentsOf(call: ToolFrame): string {
  const value = call.function?.arguments
  if (typeof value === 'string') return value
  return isObject(value) ? JSON.stringify(value) : ''
}

/** The fields of the frame types above are all unknown or optional, so that any object is one of them. */
function isObject<T extends object>(value: unknown): value is T {
  return typeof value === 'object' && value !== null
}
