/**
 * Calls to the daemon, by `@breakfall/client`. A failure is a thrown `Fault`: the daemon's own, or `daemon_unreachable`. Calls are not
 * repeated here, because a button says at once what happened; only the connection of `socket.ts` is.
 */
import { type Call, ClientCore, isFault, jsonOrText, operation, reportedFault, sleep } from '@breakfall/client/internal'
import { clock } from './clock.ts'
import { revealed } from '../text/reveal.ts'
import { isJson, type Json } from '../fold/shapes.ts'

export { operation }

/** A person waits in front of the page: it looks for its daemon more often than other clients do. */
const RECONNECT_MS_MAX = 5_000

export const daemon = new ClientCore(
  { url: location.origin, token: '' },
  {
    retryCalls: false,
    now: clock.local,
    random: clock.random,
    sleep: (ms, signal) => sleep(Math.min(ms, clock.random() * RECONNECT_MS_MAX), signal),
    fetch: (input, init) => fetch(input, { ...init, cache: 'no-store' }),
  },
)

export function useToken(token: string): void {
  daemon.address = { ...daemon.address, token }
}

/** The JSON of a call. What uses it checks its fields. */
export async function json(call: Call, signal?: AbortSignal): Promise<Json> {
  const { text } = await daemon.ask({ ...call, signal })
  const value = text === '' ? {} : revealed(jsonOrText(text))
  if (isJson(value)) return value
  throw reportedFault('other', { boundary: 'daemon', error: `The daemon's answer to ${call.path} is not JSON.` })
}

/** The HTTP status of a failed call; 0 if no response came. */
export const statusOf = (error: unknown): number => (isFault(error) ? (error.report.status ?? 0) : 0)
