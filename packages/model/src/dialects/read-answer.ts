/**
 * What has been read of one answer: its parts, in order, and what the protocol said about the end. Decoders fill it,
 * `proof.ts` judges it.
 */
import { Fault } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { isObject, type JsonObject } from '../lib/json.ts'

/**
 * What a frame is to a client. `content` is text or reasoning; `opening` begins a block that stays empty if the stream breaks
 * there; `item` belongs to an item that goes out only when it is complete, and `item-end` completes it; `tail` must not go out
 * before the answer is proven.
 */
export type FrameKind = 'lifecycle' | 'opening' | 'content' | 'item' | 'item-end' | 'tool' | 'tail'

/** Reads one answer in one dialect. */
export type AnswerDecoder = {
  readonly answer: ReadAnswer
  /** The frame read last, parsed; undefined if it did not have to be parsed. */
  readonly json: JsonObject | undefined
  /** What the frame read last is to a client, if the API says so itself; undefined if its content does. */
  readonly frameKind?: FrameKind | undefined
  /** Where to read on if the server keeps the answer; undefined if it gave no name for it. */
  readonly position?: StreamPosition | undefined
  /** Takes one frame. Throws a Fault for an error inside the stream, and for a frame that makes no sense. */
  frame(frame: SseFrame): void
  /** Takes frames that differ only in their text, as one: as many as there are from `from` on. Undefined if there are none. */
  run?(text: string, from: number): FrameRun | undefined
  /** Takes an answer that came in one piece, from a server that did not stream. */
  whole(json: JsonObject): void
  /** For an API without a terminal event: what was read so far may be the end. */
  readonly isTail?: boolean
  /** For an API without a terminal event: the body ended properly. */
  close?(): void
}

/** Frames that were taken as one. */
export type FrameRun = {
  readonly events: number
  /** Their end in the text that they were read from. */
  readonly to: number
}

/** How far a stream was read that its server can continue. */
export type StreamPosition = {
  readonly id: string
  /** The number of the last event. */
  readonly after: number
  /** The frames that are missing, from the answer in one piece. */
  readonly rest: (final: JsonObject) => readonly SseFrame[]
}

/** Its text is handed on as it comes and not kept: an answer may be larger than memory. */
export type TextPart = {
  readonly kind: 'text' | 'reasoning'
  /** Text that clients get in another field. */
  readonly isRefusal: boolean
  readonly id: string
  chars: number
}

export type ToolPart = {
  readonly kind: 'tool'
  readonly id: string
  callId: string
  tool: string
  /** The JSON received so far, perhaps cut. */
  arguments: string
  /**
   * How it proves itself: `json` by parsing. `text` (free text) and `item` (a call whose shape only its API knows) have no such
   * sign, so they need the protocol's: `isDone`.
   */
  readonly form: 'json' | 'text' | 'item'
  /** The protocol said that this call is complete. */
  isDone: boolean
  /** The protocol said that this call is not complete, or left open whether it is a call of its own. */
  isCut: boolean
}

export type Part = TextPart | ToolPart

/** Kept until the call is proven. Larger than any file that a model has written; a server that never stops is cut off here. */
export const ARGUMENTS_CHARS_MAX = 16 * 1024 * 1024

/** Of the text that is looked through once the answer is over. Longer ones are no call by mistake. */
export const VISIBLE_CHARS_MAX = 32 * 1024

export type TokenCounts = {
  /** With those that came from a cache or went into one. */
  readonly input?: number | undefined
  readonly output?: number | undefined
  readonly cacheRead?: number | undefined
  readonly cacheWrite?: number | undefined
}

/** Called whenever a part grows. */
export type PartHandler = {
  text(part: TextPart, text: string): void
  tool(part: ToolPart): void
}

export class ReadAnswer {
  readonly parts: Part[] = []
  /** Why the model stopped, under the name that OpenAI's chat API uses; null until every choice has a reason. */
  finish: string | null = null
  /** The protocol's end marker was read: `[DONE]`, `message_stop`, `response.completed`. */
  ended = false
  /** How many answers were given at once, which come by turns. */
  choices = 1
  #usage: TokenCounts = {}
  /** Grows with everything the model says. */
  progress = 0
  /** A tool that the provider ran while it answered, and whose effects another attempt would repeat. */
  serverTool: string | undefined
  /** It has a character to read. */
  isVisible = false
  hasThoughts = false
  /** It holds more than text, thoughts and calls, or ended at a stop sequence: however short it is, it is meant. */
  isMeant = false
  /** Whether its text is kept for the end, and what was: one character more than `VISIBLE_CHARS_MAX` if it is longer. */
  keepsVisible = false
  visible = ''

  readonly #nextPartId: () => string
  readonly #handler: PartHandler

  constructor(handler: PartHandler, nextPartId: () => string) {
    this.#handler = handler
    this.#nextPartId = nextPartId
  }

  openText(kind: TextPart['kind'], isRefusal = false): TextPart {
    const part: TextPart = { kind, isRefusal, id: this.#nextPartId(), chars: 0 }
    this.parts.push(part)
    return part
  }

  growText(part: TextPart, text: string): void {
    part.chars += text.length
    this.progress++
    if (part.kind === 'reasoning') this.hasThoughts = true
    else {
      this.isVisible ||= /\S/.test(text)
      if (this.keepsVisible && this.visible.length <= VISIBLE_CHARS_MAX)
        this.visible += text.slice(0, VISIBLE_CHARS_MAX + 1 - this.visible.length)
    }
    this.#handler.text(part, text)
  }

  openTool(callId: string, tool: string, form: ToolPart['form'] = 'json'): ToolPart {
    const part: ToolPart = {
      kind: 'tool',
      id: this.#nextPartId(),
      callId,
      tool,
      arguments: '',
      form,
      isDone: false,
      isCut: false,
    }
    this.parts.push(part)
    return part
  }

  growTool(part: ToolPart, json: string): void {
    if (part.arguments.length + json.length > ARGUMENTS_CHARS_MAX)
      throw new Fault('model_server_error', {
        phase: 'stream',
        facts: { detail: `the arguments of one tool call are longer than ${ARGUMENTS_CHARS_MAX} characters` },
      })
    part.arguments += json
    this.progress++
    this.#handler.tool(part)
  }

  get usage(): TokenCounts {
    return this.#usage
  }

  /** What the server counted, as numbers or anything else. A count that is left out does not change. */
  count(counts: { readonly [K in keyof TokenCounts]: unknown }): void {
    const numbers = Object.entries(counts).filter(([, value]) => typeof value === 'number')
    this.#usage = { ...this.#usage, ...Object.fromEntries(numbers) }
  }

  get tools(): readonly ToolPart[] {
    return this.parts.filter((part) => part.kind === 'tool')
  }
}

/** What servers call the token limit besides `length`: Anthropic's word, Gemini's, Mistral's and that of Responses. */
const AT_LIMIT: ReadonlySet<string> = new Set(['max_tokens', 'max_output_tokens', 'model_length'])

/** A finish reason under the name that OpenAI's chat API uses. A reason without a counterpart keeps its name. */
export function finishNamed(reason: string): string {
  const name = reason.toLowerCase() // Gemini's own names are in capitals, also behind its OpenAI-compatible route
  if (AT_LIMIT.has(name)) return 'length'
  return name === 'function_call' ? 'tool_calls' : name
}

/**
 * Of several answers, the one whose finish reason decides: the one that made the last call, which may be cut. The last call of any
 * other that the limit ended is marked here.
 */
export function deciding<Choice extends { readonly lastCall: ToolPart | undefined }>(
  choices: readonly Choice[],
  answer: ReadAnswer,
  isAtLimit: (choice: Choice) => boolean,
): Choice | undefined {
  const last = answer.tools.at(-1)
  for (const choice of choices) {
    const { lastCall } = choice
    if (lastCall !== undefined && lastCall !== last && lastCall.arguments.trim() === '' && isAtLimit(choice))
      lastCall.isCut = true
  }
  return choices.find(({ lastCall }) => lastCall !== undefined && lastCall === last) ?? choices[0]
}

/** The arguments of a call that came as an object. An empty one says no more than no arguments at all. */
export const objectArguments = (value: unknown): string =>
  isObject(value) && Object.keys(value).length > 0 ? JSON.stringify(value) : ''

/** Numbers parts over all attempts of one call: p1, p2, … */
export function partCounter(): () => string {
  let count = 0
  return () => `p${++count}`
}
