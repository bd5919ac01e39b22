/** JSON from outside, read without trusting its shape. */

export type JsonObject = Readonly<Record<string, unknown>>

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The objects in a list. Anything else a server put there is left out; no list is an empty one. */
export function objectsIn(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

export const objectOr = (value: unknown): JsonObject => (isObject(value) ? value : {})
export const stringOr = (value: unknown): string => (typeof value === 'string' ? value : '')
export const numberOr = (value: unknown): number => (typeof value === 'number' ? value : 0)

/** The value, or the text itself if it is not JSON. */
export function parsedOr(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text // a proxy's HTML page, for example
  }
}

/**
 * A request's body as JSON. Messages, and blocks in them, that never change (frozen) are written once, however often they are sent:
 * a long conversation sends the same messages in every step.
 */
export function bodyJson(body: object): string {
  const fields = Object.entries(body).flatMap(([name, value]: [string, unknown]) => {
    const json: string | undefined =
      CONVERSATION.has(name) && Array.isArray(value) ? listJson(value) : JSON.stringify(value)
    return json === undefined ? [] : [`${JSON.stringify(name)}:${json}`]
  })
  return `{${fields.join(',')}}`
}

/** What the APIs call the list of messages. */
const CONVERSATION: ReadonlySet<string> = new Set(['messages', 'input'])

const WRITTEN = new WeakMap<object, string>()

const listJson = (list: readonly unknown[]): string => `[${list.map(messageJson).join(',')}]`

function messageJson(message: unknown): string {
  if (!isObject(message)) return JSON.stringify(message) ?? 'null'
  if (Object.isFrozen(message)) return frozenJson(message)
  const { role, content, ...more } = message
  if (!Array.isArray(content) || Object.keys(more).length > 0 || !content.every(isFrozenObject))
    return JSON.stringify(message)
  return `{"role":${JSON.stringify(role)},"content":${listJson(content)}}` // blocks of several messages, joined for this request
}

const isFrozenObject = (value: unknown): boolean => isObject(value) && Object.isFrozen(value)

function frozenJson(value: JsonObject): string {
  const known = WRITTEN.get(value)
  if (known !== undefined) return known
  const json = JSON.stringify(value)
  WRITTEN.set(value, json)
  return json
}

/** The same parts for the same frozen message, themselves frozen, so that their JSON is written once. */
export function oncePerMessage<M extends object, P extends object>(
  make: (message: M) => readonly P[],
): (message: M) => readonly P[] {
  const made = new WeakMap<M, readonly P[]>()
  return (message) => {
    const known = made.get(message)
    if (known !== undefined) return known
    const parts = make(message)
    if (!Object.isFrozen(message)) return parts // it may change
    for (const part of parts) Object.freeze(part)
    made.set(message, parts)
    return parts
  }
}
