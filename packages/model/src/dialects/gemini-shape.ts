/** Gemini's chunks as the client gets them: one id and model over all attempts, and everything else byte for byte. */
import type { SseFrame } from '@breakfall/wire'
import { type JsonObject, objectOr, objectsIn } from '../json.ts'
import { type ClientShape, type Fresh, plainFrame } from './dialect.ts'

export class GeminiShape implements ClientShape {
  canHeal = true
  #identity: JsonObject | undefined
  #healing = false

  begin(healing: boolean): void {
    this.#healing = healing
    if (!healing) this.#identity = undefined
  }

  skip(): void {
    return
  }

  frame(frame: SseFrame, json: JsonObject | undefined, fresh: Fresh): SseFrame | string {
    if (json === undefined) return frame
    const { responseId, modelVersion, candidates } = json
    this.#identity ??= { responseId, modelVersion }
    const parts = partsOf(json)
    // A picture, code that the provider ran, or a second candidate cannot be compared with another attempt.
    if (objectsIn(candidates).length > 1 || parts.some((part) => !COMPARED.some((key) => key in part)))
      this.canHeal = false
    if (!this.#healing) return frame
    const same = { ...json, ...this.#identity }
    return plainFrame({ data: JSON.stringify(fresh === undefined ? same : withFresh(same, fresh)) })
  }

  ping(): string {
    return ': ping\n\n'
  }

  ending(): string {
    return ''
  }
}

// ---- details ----

const COMPARED: readonly string[] = ['text', 'functionCall', 'thoughtSignature']

const partsOf = (json: JsonObject): readonly JsonObject[] =>
  objectsIn(objectOr(objectsIn(json['candidates'])[0]?.['content'])['parts'])

/** The chunk with only the new part of its text. Signatures and calls stay as they are. */
function withFresh(chunk: JsonObject, fresh: NonNullable<Fresh>): JsonObject {
  const [first, ...rest] = objectsIn(chunk['candidates'])
  if (first === undefined) return chunk
  const left = new Map(fresh)
  const parts = partsOf(chunk).flatMap((part) => {
    if (typeof part['text'] !== 'string') return [part]
    const kind = part['thought'] === true ? 'reasoning' : 'text'
    const text = left.get(kind) ?? ''
    left.delete(kind)
    return text === '' && !('thoughtSignature' in part) ? [] : [{ ...part, text }]
  })
  return { ...chunk, candidates: [{ ...first, content: { ...objectOr(first['content']), parts } }, ...rest] }
}
