/**
 * Reads the chunks of Gemini's `streamGenerateContent`.
 *
 * I1  There is no terminal event, and translating proxies put `STOP` on empty first chunks. So a finish reason counts only if
 *     nothing follows it and the body ends properly: `close`.
 * I2  Function calls come whole: a cut never leaves half a call, but may lose the calls after it. If the client asked for streamed
 *     arguments, they come in pieces with paths, which this decoder does not put together. Such a call is over when a part does not say
 *     that it continues, or the model stops.
 */
import { Fault } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { isObject, type JsonObject, numberOr, objectOr, objectsIn, parsedOr, stringOr } from '../lib/json.ts'
import type { DecoderOptions } from './dialect.ts'
import { inBandFault, isInBandError, notJson } from './in-band.ts'
import {
  type AnswerDecoder,
  deciding,
  objectArguments,
  type PartHandler,
  ReadAnswer,
  type TextPart,
  type ToolPart,
} from './read-answer.ts'

export class GeminiDecoder implements AnswerDecoder {
  readonly answer: ReadAnswer
  json: JsonObject | undefined
  /** By index. */
  readonly #candidates = new Map<number, Candidate>()
  #candidatesMin: number

  constructor(handler: PartHandler, nextPartId: () => string, { choices }: Pick<DecoderOptions, 'choices'>) {
    this.#candidatesMin = choices
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
    // A document that parses was sent to its end.
    if (this.#candidates.size === 0) this.#candidateAt(0)
    this.#candidatesMin = 1
    for (const candidate of this.#candidates.values()) candidate.reason ??= 'STOP'
    this.close()
  }

  /** All candidates are there and have a finish reason each, and nothing came after it. */
  get isTail(): boolean {
    const all = [...this.#candidates.values()]
    return all.length >= this.#candidatesMin && all.every(({ reason }) => reason !== undefined)
  }

  close(): void {
    if (!this.isTail) return
    const isAtLimit = ({ reason }: Candidate): boolean => reason === 'MAX_TOKENS'
    const reason = deciding([...this.#candidates.values()], this.answer, isAtLimit)?.reason ?? 'STOP'
    const hasCalls = this.answer.tools.some(({ form }) => form === 'json')
    this.answer.finish = finishOf(reason, hasCalls) // I1
    this.answer.ended = true
  }

  // ---- details ----

  #chunk({ candidates, promptFeedback, usageMetadata }: JsonObject): void {
    for (const { index, content, finishReason } of objectsIn(candidates)) {
      const own = this.#candidateAt(numberOr(index))
      const before = this.answer.progress
      for (const part of objectsIn(objectOr(content)['parts'])) this.#part(own, part)
      const isReason = typeof finishReason === 'string' && finishReason !== 'FINISH_REASON_UNSPECIFIED'
      if (isReason || this.answer.progress !== before) own.reason = isReason ? finishReason : undefined // I1
      if (own.growing !== undefined && finishReason === 'STOP') own.growing.isDone = true // I2
    }
    const { blockReason } = objectOr(promptFeedback)
    if (typeof blockReason === 'string') {
      this.#candidateAt(0).reason = 'SAFETY' // the prompt was refused, and that is the answer
      this.#candidatesMin = 1
    }
    this.#usage(usageMetadata)
  }

  #candidateAt(index: number): Candidate {
    const known = this.#candidates.get(index)
    if (known !== undefined) return known
    const made: Candidate = { open: undefined, growing: undefined, reason: undefined, lastCall: undefined }
    this.#candidates.set(index, made)
    this.answer.choices = Math.max(this.answer.choices, index + 1)
    return made
  }

  #part(own: Candidate, part: JsonObject): void {
    const { answer } = this
    const { text, thought, functionCall } = part
    if (isObject(functionCall)) return this.#call(own, functionCall)
    if (typeof text !== 'string') {
      answer.isMeant ||= Object.keys(part).some((key) => key !== 'thought' && key !== 'thoughtSignature') // a picture, code that ran
      answer.hasThoughts ||= part['thoughtSignature'] !== undefined
      return
    }
    if (text === '') return
    const kind = thought === true ? 'reasoning' : 'text'
    if (own.open?.kind !== kind) own.open = answer.openText(kind)
    answer.growText(own.open, text)
  }

  /** I2 */
  #call(own: Candidate, { id, name, args, partialArgs, willContinue }: JsonObject): void {
    own.open = undefined
    const isStreamed = willContinue === true || partialArgs !== undefined
    let call = own.growing
    if (call === undefined || stringOr(name) !== '') {
      if (call !== undefined) call.isDone = true // the next one begins
      call = own.lastCall = this.answer.openTool(stringOr(id), stringOr(name), isStreamed ? 'item' : 'json')
    }
    const piece = partialArgs === undefined ? '' : JSON.stringify(partialArgs)
    this.answer.growTool(call, call.form === 'item' ? piece : objectArguments(args))
    call.isDone = willContinue !== true
    own.growing = call.isDone ? undefined : call
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

type Candidate = {
  open: TextPart | undefined
  /** The call whose arguments continue. */
  growing: ToolPart | undefined
  reason: string | undefined
  lastCall: ToolPart | undefined
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
