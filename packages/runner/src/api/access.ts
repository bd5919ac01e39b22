/** Checks a call: token and prefix, the intended runner, and the owner's epoch. Also reads query parameters and pages. */
import type { IncomingMessage } from 'node:http'
import { Fault } from '@breakfall/faults'
import { EPOCH_HEADER, RUNNER_HEADER } from '@breakfall/wire'
import { ID_PATTERN, invalidRequest } from '@breakfall/wire/internal'
import { bearerToken, findGrant, refuseIfReadOnly, type TokenGrant } from '@breakfall/wire/node'
import { cursorOf, keyOfCursor } from './cursor.ts'

export function authorize(
  grants: readonly TokenGrant[],
  req: IncomingMessage,
  params: Readonly<Record<string, string>>,
): TokenGrant {
  const grant = findGrant(grants, bearerToken(req))
  if (grant === undefined) throw new Fault('unauthorized', { errorRaw: 'no valid token' })
  refuseIfReadOnly(grant, req.method)
  const { prefix, id } = params
  if (prefix === undefined) return grant
  if (!ID_PATTERN.test(prefix) || (grant.prefixes !== null && !grant.prefixes.includes(prefix))) {
    // A prefix that you may not use looks like an empty one.
    throw id === undefined
      ? new Fault('not_found', { facts: { name: 'such prefix' } })
      : new Fault('box_not_found', { facts: { name: id.slice(0, 128) } })
  }
  return grant
}

export function checkRunner(req: IncomingMessage, runnerId: string): void {
  const expected = req.headers[RUNNER_HEADER]
  if (expected === undefined || expected === runnerId) return
  throw new Fault('runner_identity_mismatch', { errorRaw: `this is runner ${runnerId}` })
}

export function epochOf(req: IncomingMessage): number | undefined {
  const text = req.headers[EPOCH_HEADER]
  if (text === undefined) return undefined
  if (typeof text !== 'string' || !/^\d{1,15}$/.test(text))
    throw invalidRequest([{ field: EPOCH_HEADER, expected: 'a whole number from 0', got: String(text).slice(0, 50) }])
  return Number(text)
}

/** A number in the query, or its default. */
export function queryNumber(
  query: URLSearchParams,
  name: string,
  range: { readonly min: number; readonly max: number; readonly byDefault: number },
): number {
  const text = query.get(name)
  if (text === null) return range.byDefault
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (!(value >= range.min && value <= range.max))
    throw invalidRequest([
      { field: name, expected: `an integer from ${range.min} to ${range.max}`, got: JSON.stringify(text.slice(0, 50)) },
    ])
  return value
}

/** One page of a sorted list, and the cursor of the next. */
export function page<T>(
  items: readonly T[],
  keyOf: (item: T) => string,
  query: URLSearchParams,
  max: number,
): { readonly items: readonly T[]; readonly next?: string } {
  const limit = queryNumber(query, 'limit', { min: 1, max, byDefault: max })
  const after = keyOfCursor(query)
  const from = after === undefined ? 0 : items.findIndex((item) => keyOf(item) > after)
  const rest = from === -1 ? [] : items.slice(from, from + limit)
  const last = rest.at(-1)
  return last !== undefined && from + rest.length < items.length
    ? { items: rest, next: cursorOf(keyOf(last)) }
    : { items: rest }
}
