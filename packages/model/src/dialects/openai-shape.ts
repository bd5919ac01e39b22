/** OpenAI's chat chunks as the client gets them: one id, model and time over all attempts, and each thought signed once. */
import type { SseFrame } from '@breakfall/wire'
import { isObject, type JsonObject, objectOr, objectsIn } from '../lib/json.ts'
import { type ClientShape, type Fresh, plainFrame } from './dialect.ts'
import { extraOf, Extras, extrasIn, isSaid } from './extras.ts'
import { logprobsOf } from './logprobs.ts'

export class OpenAiShape implements ClientShape {
  canHeal = true
  #identity: JsonObject | undefined
  #healing = false
  #isEnded = false
  #hasRole = false
  readonly #extras = new Extras()
  /** Signatures of thoughts: those that the client has, had when the attempt began, and that the attempt has given. */
  #signed = 0
  #known = 0
  #given = 0
  /** A signature that was not skipped goes out later, so none after it is counted before. */
  #skipsSigned = true

  begin(healing: boolean): void {
    this.#healing = healing
    if (!healing) {
      this.#identity = undefined
      this.#signed = 0
    }
    this.#known = this.#signed
    this.#given = 0
    this.#skipsSigned = true
  }

  skip(json: JsonObject | undefined): boolean {
    const deltas = objectsIn(json?.['choices']).map(({ delta }) => objectOr(delta))
    const signatures = deltas.flatMap((delta) => objectsIn(delta[DETAILS]).filter(isSigned)).length
    if (signatures > 0) this.#skipsSigned &&= this.#given + signatures <= this.#known
    const isRepeated = deltas.every((delta) => {
      const { tool_calls, function_call } = delta
      return (
        !isSaid(tool_calls) && !isObject(function_call) && extrasOf(delta).every((extra) => this.#extras.has(extra))
      )
    })
    if (signatures === 0) return isRepeated
    this.#skipsSigned &&= isRepeated
    if (this.#skipsSigned) this.#given += signatures
    return this.#skipsSigned
  }

  frame(frame: SseFrame, json: JsonObject | undefined, fresh: Fresh): SseFrame | string {
    if (frame.data === '[DONE]') this.#isEnded = true
    if (json === undefined) return frame
    const { id, model, created } = json
    this.#identity ??= { id, model, created }
    const choices = objectsIn(json['choices'])
    const [first] = choices
    const hadRole = this.#hasRole
    this.#hasRole ||= isSaid(objectOr(first?.['delta'])['role'])
    if (!this.#healing) {
      this.#note(first?.['delta'])
      return frame
    }
    const same = { ...json, ...this.#identity, ...(hadRole ? { choices: choices.map(withoutRole) } : {}) }
    const unsigned = { ...same, choices: objectsIn(same['choices']).map((choice) => this.#signedOnce(choice)) }
    const healed = fresh === undefined ? unsigned : withFresh(unsigned, fresh, this.#extras)
    this.#note(objectsIn(unsigned.choices)[0]?.['delta'])
    return plainFrame({ data: JSON.stringify(healed) })
  }

  get isUnchanged(): boolean {
    return !this.#healing
  }

  ping(): string {
    return ': ping\n\n'
  }

  ending(): string {
    return this.#isEnded ? '' : 'data: [DONE]\n\n'
  }

  /** Another attempt signs the same thoughts again, and the client keeps the first signature of each. */
  #signedOnce(choice: JsonObject): JsonObject {
    const delta = objectOr(choice['delta'])
    const details = objectsIn(delta[DETAILS])
    if (!details.some(isSigned)) return choice
    const left = details.flatMap((detail) => {
      if (!isSigned(detail) || ++this.#given > this.#known) return [detail]
      const { data: _data, signature: _signature, ...unsigned } = detail
      return isTextOnly(unsigned) ? [unsigned] : []
    })
    return { ...choice, delta: { ...delta, [DETAILS]: left } }
  }

  /** What stands alone (annotations, audio) cannot be compared with another attempt, and must not come twice. */
  #note(delta: unknown): void {
    this.#signed += objectsIn(objectOr(delta)[DETAILS]).filter(isSigned).length
    const extras = extrasOf(delta)
    if (extras.length === 0) return
    if (!this.#extras.add(extras) || !hasText(delta)) this.canHeal = false
  }
}

// ---- details ----

/** OpenRouter repeats the reasoning here, with what is needed to send it back: a signature, or the reasoning encrypted. */
const DETAILS = 'reasoning_details'
const TEXT_KEYS: readonly string[] = ['content', 'reasoning', 'reasoning_content', 'refusal']
/** Compared with another attempt, held until the answer is complete, or the same in each attempt. */
const KNOWN_KEYS: ReadonlySet<string> = new Set([...TEXT_KEYS, 'role', DETAILS, 'tool_calls', 'function_call'])

const hasText = (delta: unknown): boolean => isObject(delta) && TEXT_KEYS.some((key) => isSaid(delta[key]))

function extrasOf(delta: unknown): readonly string[] {
  if (!isObject(delta)) return []
  const extras = extrasIn(delta, KNOWN_KEYS)
  const details = objectsIn(delta[DETAILS])
  if (details.length === 0) return extras
  const isMirrored = isSaid(delta['reasoning']) || isSaid(delta['reasoning_content'])
  const more = details.filter((detail) => !isSigned(detail) && !(isMirrored && isTextOnly(detail)))
  return [...extras, ...more.map((detail) => extraOf(DETAILS, detail))]
}

const isSigned = ({ signature, data }: JsonObject): boolean => isSaid(signature) || isSaid(data)

const isTextOnly = (detail: JsonObject): boolean =>
  (isSaid(detail['text']) || isSaid(detail['summary'])) && !isSigned(detail)

/** The chunk with only the new part of its text, and without what the client was told already. */
function withFresh(chunk: JsonObject, fresh: readonly string[], known: Extras): JsonObject {
  const rest = [...fresh]
  const newOf = (text: unknown): string => (typeof text === 'string' && text !== '' ? (rest.shift() ?? '') : '')
  const choices = objectsIn(chunk['choices']).map((choice) => {
    const delta: Record<string, unknown> = { ...objectOr(choice['delta']) }
    const { content, refusal, reasoning, reasoning_content } = delta
    // In the order of the decoder.
    const thought = newOf(reasoning_content ?? reasoning)
    const text = Array.isArray(content) ? newPieces(content, newOf) : newOf(content)
    const refused = newOf(refusal)
    for (const key of Object.keys(delta)) if (known.has(extraOf(key, delta[key]))) delete delta[key]
    const details = objectsIn(delta[DETAILS]).flatMap((detail) => newDetail(detail, thought, known))
    Object.assign(delta, { content: text, refusal: refused, [DETAILS]: details })
    if (isSaid(reasoning_content)) delta['reasoning_content'] = thought
    if (isSaid(reasoning)) delta['reasoning'] = thought
    for (const key of [...TEXT_KEYS, DETAILS]) if (!isSaid(delta[key])) delete delta[key]
    if (!('logprobs' in choice)) return { ...choice, delta }
    const { content: tokens, refusal: refusals } = objectOr(choice['logprobs'])
    const [left, leftRefusals] = [logprobsOf(tokens, text), logprobsOf(refusals, refused)]
    const logprobs =
      left === undefined && leftRefusals === undefined ? null : { content: left ?? null, refusal: leftRefusals ?? null }
    return { ...choice, delta, logprobs }
  })
  return { ...chunk, choices }
}

/** The role comes once. */
function withoutRole(choice: JsonObject): JsonObject {
  if (!isSaid(objectOr(choice['delta'])['role'])) return choice
  const { role: _role, ...delta } = objectOr(choice['delta'])
  return { ...choice, delta }
}

/** Mistral's list of typed pieces. */
function newPieces(pieces: readonly unknown[], newOf: (text: unknown) => string): readonly JsonObject[] {
  return objectsIn(pieces).flatMap((piece) => {
    const { type, text, thinking } = piece
    if (type === 'text') return keep({ ...piece, text: newOf(text) }, 'text')
    if (type !== 'thinking') return [piece]
    if (!Array.isArray(thinking)) return keep({ ...piece, thinking: newOf(thinking) }, 'thinking')
    const thoughts = objectsIn(thinking).flatMap((thought) =>
      keep({ ...thought, text: newOf(thought['text']) }, 'text'),
    )
    return keep({ ...piece, thinking: thoughts }, 'thinking')
  })
}

const keep = (piece: JsonObject, key: string): readonly JsonObject[] => (isSaid(piece[key]) ? [piece] : [])

function newDetail(detail: JsonObject, thought: string, known: Extras): readonly JsonObject[] {
  if (known.has(extraOf(DETAILS, detail))) return []
  const key = isSaid(detail['text']) ? 'text' : isSaid(detail['summary']) ? 'summary' : undefined
  if (key === undefined) return [detail]
  return isTextOnly(detail) && thought === '' ? [] : [{ ...detail, [key]: thought }]
}
