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
 * A request's body as JSON. Messages that never change (frozen) are written once, however often they are sent: a long conversation
 * sends the same messages in every step.
 */
export function bodyJson(body: object): string {
  const fields = Object.entries(body).flatMap(([name, value]: [string, unknown]) => {
    const isList = name === 'messages' && Array.isArray(value)
    const json: string | undefined = isList ? `[${value.map(messageJson).join(',')}]` : JSON.stringify(value)
    return json === undefined ? [] : [`${JSON.stringify(name)}:${json}`]
  })
  return `{${fields.join(',')}}`
}

const WRITTEN = new WeakMap<object, string>()

function messageJson(message: unknown): string {
  if (!isObject(message) || !Object.isFrozen(message)) return JSON.stringify(message) ?? 'null'
  const known = WRITTEN.get(message)
  if (known !== undefined) return known
  const json = JSON.stringify(message)
  WRITTEN.set(message, json)
  return json
}
