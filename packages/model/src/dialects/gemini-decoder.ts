/**
 * Reads the chunks of Gemini's `streamGenerateContent`.
 *
 * I1  There is no terminal event, and translating proxies put `STOP` on empty first chunks. So a finish reason counts only if
 *     nothing follows it and the body ends properly: `close`.
 * I2  Function calls come whole. A cut never leaves half a call, but may lose the calls after it.
 */
import { Fault } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { isObject, type JsonObject, numberOr, objectOr, objectsIn, parsedOr, stringOr } from '../json.ts'
import { inBandFault, isInBandError, notJson } from './in-band.ts'
import { type AnswerDecoder, objectArguments, type PartHandler, ReadAnswer, type TextPart } from './read-answer.ts'

export class GeminiDecoder implements AnswerDecoder {
  readonly answer: ReadAnswer
  json: JsonObject | undefined
  #open: TextPart | undefined
  #reason: string | undefined

  constructor(handler: PartHandler, nextPartId: () => string) {
    this.answer = new ReadAnswer(handler, nextPartId)
  }

  frame(frame: SseFrame): void {
    const json = parsedOr(frame.data)
    if (!isObject(json)) throw notJson(frame.data, undefined)
    this.json = json
    if (isInBandError(json)) throw inBandFault(json)
    this.#chunk(json)
  }

  whole(json: JsonObject): void {
    if (isInBandError(json)) throw inBandFault(json)
    if (!Array.isArray(json['candidates']) && !isObject(json['promptFeedback']))
      throw new Fault('model_server_error', { phase: 'stream', facts: { detail: 'the answer has no candidates' } })
    this.#chunk(json)
    this.#reason ??= 'STOP' // a document that parses was sent to its end
    this.close()
  }

  /** The frame read last has a finish reason, and nothing came after it. */
  get isTail(): boolean {
    return this.#reason !== undefined
  }

  close(): void {
    if (this.#reason === undefined) return
    this.answer.finish = finishOf(this.#reason, this.answer.tools.length > 0) // I1
    this.answer.ended = true
  }

  // ---- details ----

  #chunk({ candidates, promptFeedback, usageMetadata }: JsonObject): void {
    const before = this.answer.progress
    let reason: string | undefined
    for (const { content, finishReason } of objectsIn(candidates).slice(0, 1)) {
      for (const part of objectsIn(objectOr(content)['parts'])) this.#part(part)
      if (typeof finishReason === 'string' && finishReason !== 'FINISH_REASON_UNSPECIFIED') reason = finishReason
    }
    const { blockReason } = objectOr(promptFeedback)
    if (typeof blockReason === 'string') reason = 'SAFETY' // the prompt was refused, and that is the answer
    if (reason !== undefined || this.answer.progress !== before) this.#reason = reason // I1
    this.#usage(usageMetadata)
  }

  #part({ text, thought, functionCall }: JsonObject): void {
    const { answer } = this
    if (isObject(functionCall)) {
      this.#open = undefined
      const call = answer.openTool(stringOr(functionCall['id']), stringOr(functionCall['name']))
      answer.growTool(call, objectArguments(functionCall['args']))
      return
    }
    if (typeof text !== 'string' || text === '') return
    const kind = thought === true ? 'reasoning' : 'text'
    if (this.#open?.kind !== kind) this.#open = answer.openText(kind)
    answer.growText(this.#open, text)
  }

  #usage(usage: unknown): void {
    if (!isObject(usage)) return
    const { promptTokenCount: input, candidatesTokenCount, cachedContentTokenCount: cacheRead } = usage
    const output =
      typeof candidatesTokenCount === 'number'
        ? candidatesTokenCount + numberOr(usage['thoughtsTokenCount'])
        : undefined
    this.answer.count({ input, output, cacheRead })
  }
}

/** Gemini's finish reasons under the names of OpenAI's chat API. */
const FINISH: Readonly<Record<string, string>> = {
  MAX_TOKENS: 'length',
  SAFETY: 'content_filter',
  RECITATION: 'content_filter',
  PROHIBITED_CONTENT: 'content_filter',
  BLOCKLIST: 'content_filter',
  SPII: 'content_filter',
  IMAGE_SAFETY: 'content_filter',
  MALFORMED_FUNCTION_CALL: 'malformed_function_call',
  UNEXPECTED_TOOL_CALL: 'malformed_function_call',
  TOO_MANY_TOOL_CALLS: 'malformed_function_call',
}

function finishOf(reason: string, hasCalls: boolean): string {
  if (reason === 'STOP') return hasCalls ? 'tool_calls' : 'stop'
  return Object.hasOwn(FINISH, reason) ? (FINISH[reason] ?? reason) : reason.toLowerCase()
}
