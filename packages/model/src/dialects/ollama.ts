/**
 * Ollama's own API, `/api/chat` and `/api/generate`: lines of JSON, of which the last says `done`. Calls come whole, with their arguments
 * as an object.
 */
import type { SseFrame } from '@breakfall/wire'
import { isObject, type JsonObject, objectOr, objectsIn, parsedOr, stringOr } from '../lib/json.ts'
import { type ClientShape, type Fresh, plainFrame } from './dialect.ts'
import { extrasIn, isSaid } from './extras.ts'
import { inBandFault, isInBandError, notJson } from './in-band.ts'
import { type AnswerDecoder, objectArguments, type PartHandler, ReadAnswer, type TextPart } from './read-answer.ts'

export class OllamaDecoder implements AnswerDecoder {
  readonly answer: ReadAnswer
  json: JsonObject | undefined
  #open: TextPart | undefined

  constructor(handler: PartHandler, nextPartId: () => string) {
    this.answer = new ReadAnswer(handler, nextPartId)
  }

  frame(frame: SseFrame): void {
    this.json = undefined
    const json = parsedOr(frame.data)
    if (!isObject(json)) throw notJson(frame.data, undefined)
    this.json = json
    if (isInBandError(json)) throw inBandFault(json)
    this.#read(json)
  }

  whole(json: JsonObject): void {
    if (isInBandError(json)) throw inBandFault(json)
    this.#read({ ...json, done: true }) // a document that parses was sent to its end
  }

  // ---- details ----

  #read(json: JsonObject): void {
    const { answer } = this
    const { thinking, content, tool_calls } = saidIn(json)
    if (!answer.isMeant && isObject(json['message'])) answer.isMeant = extrasIn(json['message'], COMPARED).length > 0
    this.#text('reasoning', thinking)
    this.#text('text', content)
    for (const { id, function: called } of objectsIn(tool_calls)) {
      const { name, arguments: given } = objectOr(called)
      this.#open = undefined
      const part = answer.openTool(stringOr(id), stringOr(name))
      answer.growTool(part, objectArguments(given))
      part.isDone = true
    }
    if (json['done'] !== true) return
    answer.count({ input: json['prompt_eval_count'], output: json['eval_count'] })
    const reason = stringOr(json['done_reason']) || 'stop'
    answer.finish = reason === 'stop' && answer.tools.length > 0 ? 'tool_calls' : reason
    answer.ended = true
  }

  #text(kind: TextPart['kind'], text: unknown): void {
    if (typeof text !== 'string' || text === '') return
    if (this.#open?.kind !== kind) this.#open = this.answer.openText(kind)
    this.answer.growText(this.#open, text)
  }
}

export class OllamaShape implements ClientShape {
  canHeal = true
  #healing = false

  begin(healing: boolean): void {
    this.#healing = healing
  }

  skip(json: JsonObject | undefined): boolean {
    return json?.['done'] !== true && extrasOf(json ?? {}).length === 0
  }

  frame(frame: SseFrame, json: JsonObject | undefined, fresh: Fresh): SseFrame | string {
    if (json === undefined) return frame
    if (isSaid(json['message']) && extrasIn(objectOr(json['message']), COMPARED).length > 0) this.canHeal = false
    if (!this.#healing || fresh === undefined) return frame
    return plainFrame({ data: JSON.stringify(withFresh(json, fresh)) })
  }

  get isUnchanged(): boolean {
    return !this.#healing
  }

  /** No line means nothing to every client. */
  ping(): string {
    return ''
  }

  ending(): string {
    return ''
  }
}

// ---- details ----

/** What `/api/chat` says in its message, `/api/generate` says beside it. */
const saidIn = ({ message, response, thinking }: JsonObject): JsonObject =>
  isObject(message) ? message : { content: response, thinking }

const TEXT_KEYS: ReadonlySet<string> = new Set(['role', 'content', 'thinking'])
const COMPARED: ReadonlySet<string> = new Set([...TEXT_KEYS, 'tool_calls', 'tool_name'])

/** What a line says beside text and thoughts. */
const extrasOf = ({ message }: JsonObject): readonly string[] => extrasIn(objectOr(message), TEXT_KEYS)

/** The line with only the new part of its texts, which are in the order of the decoder. */
function withFresh(json: JsonObject, fresh: readonly string[]): JsonObject {
  const rest = [...fresh]
  const newOf = (text: unknown): unknown => (typeof text === 'string' && text !== '' ? (rest.shift() ?? '') : text)
  const { message, response } = json
  const thinking = newOf(saidIn(json)['thinking'])
  const thought = thinking === undefined ? {} : { thinking }
  if (!isObject(message)) return { ...json, ...thought, response: newOf(response) }
  return { ...json, message: { ...message, ...thought, content: newOf(message['content']) } }
}
