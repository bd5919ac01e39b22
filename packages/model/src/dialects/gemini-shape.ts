/** Gemini's chunks as the client gets them: one id and model over all attempts. As they came, if only one attempt was needed. */
import { Fault } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { type JsonObject, objectOr, objectsIn, stringOr } from '../lib/json.ts'
import { type ClientShape, type Fresh, plainFrame } from './dialect.ts'
import { Extras, extrasIn, extraOf } from './extras.ts'

export class GeminiShape implements ClientShape {
  canHeal = true
  readonly withoutComments = true // gemini-cli takes what follows a comment for nothing, and asks again
  #identity: JsonObject | undefined
  #healing = false
  readonly #extras = new Extras()
  /** Characters of text and thoughts: what the client has, what it had when the attempt began, and what the attempt said. */
  #sent = 0
  #known = 0
  #said = 0
  /** Where the client's last signature of a text is, and where its text last became thoughts or its thoughts text. */
  #signedAt = 0
  #turnedAt = 0
  #isThought = false
  #hasCalled = false
  /** What follows a chunk that was not skipped is not skipped, so that places are counted in order. */
  #skips = true

  begin(healing: boolean): void {
    this.#healing = healing
    if (!healing) this.#identity = undefined
    this.#known = this.#sent
    this.#said = 0
    this.#hasCalled = false
    this.#skips = true
  }

  skip(json: JsonObject | undefined): boolean {
    let said = this.#said
    const isRepeated = partsOf(json).every((part) => {
      said += lengthOf(part)
      return isText(part) && !('thoughtSignature' in part && this.#lacksSignature(said))
    })
    this.#skips &&= isRepeated && extrasOf(json).every((extra) => this.#extras.has(extra))
    if (this.#skips) this.#said = said
    return this.#skips
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
    for (const part of partsOf(out)) this.#note(part)
    return this.#healing ? plainFrame({ data: JSON.stringify(out) }) : frame
  }

  get isUnchanged(): boolean {
    return !this.#healing
  }

  ping(): string {
    return '\n'
  }

  ending(): string {
    return ''
  }

  /**
   * The client has nothing that signs what comes before this place. Text and thoughts may each have a signature, which another
   * attempt gives in other places: it may come later, but not after a turn.
   */
  #lacksSignature(place: number): boolean {
    return place > this.#signedAt && place > this.#turnedAt
  }

  #note(part: JsonObject): void {
    if (!isText(part)) return
    const isThought = part['thought'] === true
    if (part['text'] !== '' && isThought !== this.#isThought) {
      this.#turnedAt = this.#sent
      this.#isThought = isThought
    }
    this.#sent += lengthOf(part)
    if ('thoughtSignature' in part) this.#signedAt = this.#sent
  }

  #divergence(): Fault {
    this.canHeal = false
    return new Fault('model_stream_interrupted', {
      phase: 'stream',
      errorRaw: 'the answer was asked for again and had something new before text that had been sent',
    })
  }

  /** The chunk with only the new part of its texts. Calls stay as they are; the same thoughts have one signature, whichever it is. */
  #withFresh(chunk: JsonObject, fresh: Fresh): JsonObject {
    const [first, ...others] = objectsIn(chunk['candidates'])
    if (first === undefined) return chunk
    const rest = fresh === undefined ? undefined : [...fresh]
    const parts = partsOf(chunk).flatMap((part) => {
      this.#hasCalled ||= 'functionCall' in part
      if (!isText(part)) {
        if (this.#said < this.#known && !('functionCall' in part)) throw this.#divergence() // the client has what comes after it
        return [part]
      }
      this.#said += lengthOf(part)
      const text = part['text'] === '' || rest === undefined ? stringOr(part['text']) : (rest.shift() ?? '')
      const { thoughtSignature: signature, ...unsigned } = part
      const isNew = text !== '' || this.#hasCalled || this.#said > this.#known || this.#lacksSignature(this.#said)
      if (signature !== undefined && isNew) return [{ ...part, text }]
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

const lengthOf = (part: JsonObject): number => stringOr(part['text']).length

const firstOf = (json: JsonObject | undefined): JsonObject => objectOr(objectsIn(json?.['candidates'])[0])

const partsOf = (json: JsonObject | undefined): readonly JsonObject[] =>
  objectsIn(objectOr(firstOf(json)['content'])['parts'])

const extrasOf = (json: JsonObject | undefined): readonly string[] => extrasIn(firstOf(json), KNOWN_KEYS)
