/** Checks a call: token and prefix, the intended runner, and the owner's epoch. */
import type { IncomingMessage } from 'node:http'
import { Fault } from '@breakfall/faults'
import { EPOCH_HEADER, RUNNER_HEADER } from '@breakfall/wire'
import { ID_PATTERN, invalidRequest } from '@breakfall/wire/internal'
import { bearerToken, findGrant, refuseIfReadOnly, type TokenGrant } from '@breakfall/wire/node'

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
