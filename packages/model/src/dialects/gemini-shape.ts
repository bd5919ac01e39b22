/** Gemini's chunks as the client gets them: one id and model over all attempts. As they came, if only one attempt was needed. */
import type { SseFrame } from '@breakfall/wire'
import { type JsonObject, objectOr, objectsIn, stringOr } from '../json.ts'
import { type ClientShape, type Fresh, plainFrame } from './dialect.ts'
import { Extras, extrasIn, extraOf } from './extras.ts'

export class GeminiShape implements ClientShape {
  canHeal = true
  #identity: JsonObject | undefined
  #healing = false
  readonly #extras = new Extras()
  /** Signatures of texts: how many the client has, how many it had when the attempt began, and how many the attempt gave. */
  #signed = 0
  #signedBefore = 0
  #signatures = 0

  begin(healing: boolean): void {
    this.#healing = healing
    if (!healing) this.#identity = undefined
    this.#signedBefore = this.#signed
    this.#signatures = 0
  }

  skip(json: JsonObject | undefined): boolean {
    const parts = partsOf(json)
    const signatures = parts.filter((part) => 'thoughtSignature' in part).length
    const isRepeated =
      parts.every(isText) &&
      this.#signatures + signatures <= this.#signedBefore &&
      extrasOf(json).every((extra) => this.#extras.has(extra))
    if (isRepeated) this.#signatures += signatures
    return isRepeated
  }

  frame(frame: SseFrame, json: JsonObject | undefined, fresh: Fresh): SseFrame | string {
    if (json === undefined) return frame
    const { responseId, modelVersion } = json
    this.#identity ??= { responseId, modelVersion }
    // A picture or code that the provider ran cannot be compared with another attempt.
    if (partsOf(json).some((part) => !COMPARED.some((key) => key in part))) this.canHeal = false
    const same = { ...json, ...this.#identity }
    const out = this.#healing ? this.#withFresh(same, fresh) : same
    if (!this.#extras.add(extrasOf(json))) this.canHeal = false
    this.#signed += partsOf(out).filter((part) => isText(part) && 'thoughtSignature' in part).length
    return this.#healing ? plainFrame({ data: JSON.stringify(out) }) : frame
  }

  get isUnchanged(): boolean {
    return !this.#healing
  }

  ping(): string {
    return ': ping\n\n'
  }

  ending(): string {
    return ''
  }

  /** The chunk with only the new part of its texts. Calls stay as they are; the same thoughts have one signature, whichever it is. */
  #withFresh(chunk: JsonObject, fresh: Fresh): JsonObject {
    const [first, ...others] = objectsIn(chunk['candidates'])
    if (first === undefined) return chunk
    const rest = fresh === undefined ? undefined : [...fresh]
    const parts = partsOf(chunk).flatMap((part) => {
      if (!isText(part)) return [part]
      const text = part['text'] === '' || rest === undefined ? stringOr(part['text']) : (rest.shift() ?? '')
      const { thoughtSignature: signature, ...unsigned } = part
      const isKnown = signature !== undefined && ++this.#signatures <= this.#signedBefore && text === ''
      if (signature !== undefined && !isKnown) return [{ ...part, text }]
      return text === '' && part['text'] !== '' ? [] : [{ ...unsigned, text }]
    })
    const known = Object.entries(first).filter(([key, value]) => this.#extras.has(extraOf(key, value)))
    const candidate = Object.fromEntries(Object.entries(first).filter(([key]) => !known.some(([name]) => name === key)))
    return { ...chunk, candidates: [{ ...candidate, content: { ...objectOr(first['content']), parts } }, ...others] }
  }
}

// ---- details ----

const COMPARED: readonly string[] = ['text', 'functionCall', 'thoughtSignature']

/** Fields of a candidate that are about its text, or about its end. */
const KNOWN_KEYS: ReadonlySet<string> = new Set([
  'content',
  'index',
  'finishReason',
  'finishMessage',
  'safetyRatings',
  'tokenCount',
  'avgLogprobs',
  'logprobsResult',
])

const isText = (part: JsonObject): boolean => typeof part['text'] === 'string' && !('functionCall' in part)

const firstOf = (json: JsonObject | undefined): JsonObject => objectOr(objectsIn(json?.['candidates'])[0])

const partsOf = (json: JsonObject | undefined): readonly JsonObject[] =>
  objectsIn(objectOr(firstOf(json)['content'])['parts'])

const extrasOf = (json: JsonObject | undefined): readonly string[] => extrasIn(firstOf(json), KNOWN_KEYS)
