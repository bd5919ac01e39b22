/** OpenAI's chat chunks as the client gets them: one id, model and time over all attempts. */
import type { SseFrame } from '@breakfall/wire'
import { isObject, type JsonObject, objectOr, objectsIn } from '../json.ts'
import { type ClientShape, type Fresh, plainFrame } from './dialect.ts'

export class OpenAiShape implements ClientShape {
  canHeal = true
  #identity: JsonObject | undefined
  #healing = false
  #isEnded = false

  begin(healing: boolean): void {
    this.#healing = healing
    if (!healing) this.#identity = undefined
  }

  skip(): void {
    return
  }

  frame(frame: SseFrame, json: JsonObject | undefined, fresh: Fresh): SseFrame | string {
    if (frame.data === '[DONE]') this.#isEnded = true
    if (json === undefined) return frame
    const { id, model, created } = json
    const isFirst = this.#identity === undefined
    this.#identity ??= { id, model, created }
    const choices = objectsIn(json['choices'])
    const [first] = choices
    const isAnotherChoice = (first?.['index'] ?? 0) !== 0 && (isFirst || !this.#healing)
    if (choices.length > 1 || isAnotherChoice || saysMore(first?.['delta'])) this.canHeal = false
    if (!this.#healing) return frame
    const same = { ...json, ...this.#identity }
    return plainFrame({ data: JSON.stringify(fresh === undefined ? same : withFresh(same, fresh)) })
  }

  ping(): string {
    return ': ping\n\n'
  }

  ending(): string {
    return this.#isEnded ? '' : 'data: [DONE]\n\n'
  }
}

// ---- details ----

const TEXT_KEYS: readonly string[] = ['content', 'reasoning', 'reasoning_content', 'refusal']
/** Compared with another attempt, held until the answer is complete, or the same in each attempt. */
const KNOWN_KEYS: ReadonlySet<string> = new Set([...TEXT_KEYS, 'role', 'tool_calls', 'function_call'])

const isSaid = (value: unknown): boolean =>
  value !== undefined && value !== null && value !== '' && !(Array.isArray(value) && value.length === 0)

/** A frame without text that says something else (annotations, audio). What cannot be compared must not come twice. */
function saysMore(delta: unknown): boolean {
  if (!isObject(delta) || TEXT_KEYS.some((key) => isSaid(delta[key]))) return false
  return Object.entries(delta).some(([key, value]) => !KNOWN_KEYS.has(key) && isSaid(value))
}

/** The chunk with only the new part of its text, and without what belongs to the whole. */
function withFresh(chunk: JsonObject, fresh: NonNullable<Fresh>): JsonObject {
  const [first, ...rest] = objectsIn(chunk['choices'])
  if (first === undefined) return chunk
  const delta: Record<string, unknown> = { ...objectOr(first['delta']) }
  const reasoningKey = 'reasoning' in delta ? 'reasoning' : 'reasoning_content'
  const textKey = isSaid(delta['refusal']) ? 'refusal' : 'content'
  for (const key of [...TEXT_KEYS, 'role', 'reasoning_details']) delete delta[key]
  if (fresh.has('reasoning')) delta[reasoningKey] = fresh.get('reasoning')
  if (fresh.has('text')) delta[textKey] = fresh.get('text')
  const choice = 'logprobs' in first ? { ...first, delta, logprobs: null } : { ...first, delta }
  return { ...chunk, choices: [choice, ...rest] }
}
