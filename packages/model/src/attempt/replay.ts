/**
 * Re-attach to an answer that llama.cpp is still writing. Its server keeps the bytes of a streamed answer under the id that the
 * request brought (`X-Conversation-Id`), and sends them again from any offset: exact, even inside tool arguments.
 *
 * I1  One id per attempt: a second request with an id cancels the first.
 * I2  With an id, an answer no longer ends with its connection. Whoever gives up on it has to say so: `forget`.
 * I3  A server is asked once whether it can, at the first break, and the reply is remembered. Older builds ignore the id.
 */
import { randomUUID } from 'node:crypto'
import { type Dispatcher, request as ask } from 'undici'
import type { ChosenProfile } from '../contract/profiles.ts'
import { joinUrl } from './target.ts'
import type { AttemptRequest, Replay } from './attempt.ts'
import { agentFor } from './connections.ts'

/** The same request, with an id to re-attach by if the server may know what that is. */
export function withReplay(request: AttemptRequest, baseUrl: string, profile: ChosenProfile): AttemptRequest {
  if (!profile.named || profile.reattach !== 'llama-replay' || known.get(baseUrl) === false) return request
  const id = randomUUID() // I1
  const { headers } = request
  const url = `${joinUrl(baseUrl, 'stream')}?conv_id=${id}`
  const replay = { id, url, baseUrl, headers: readHeaders(headers) }
  return { ...request, headers: { ...headers, 'x-conversation-id': id }, replay }
}

/** The attempt that continues to read. */
export type Continuation = {
  /** False once the attempt is over, or re-attached again. */
  readonly isWanted: () => boolean
  readonly started: (controller: Dispatcher.DispatchController) => void
  /** What follows comes from this connection. */
  readonly continued: (controller: Dispatcher.DispatchController) => void
  /** The answer is not there any more, or the server is not. */
  readonly lost: () => void
  readonly reader: {
    onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void
    onResponseEnd(): void
    onResponseError(controller: Dispatcher.DispatchController, error: Error): void
  }
}

/** Reads the answer on from this byte. Never throws. */
export async function continueAnswer(replay: Replay, from: number, connectMs: number, to: Continuation): Promise<void> {
  const kept = await isKept(replay, connectMs)
  if (!to.isWanted()) return
  if (!kept) return to.lost()
  let current: Dispatcher.DispatchController | undefined
  const { origin, pathname, search } = new URL(replay.url)
  const path = `${pathname + search}&from=${from}`
  const options = { origin, path, method: 'GET', headers: replay.headers, headersTimeout: 0, bodyTimeout: 0 } as const
  agentFor(connectMs).dispatch(options, {
    onRequestStart: (controller) => {
      if (to.isWanted()) to.started(controller)
      else controller.abort(new Error('the attempt is over'))
    },
    onResponseStart: (controller, status) => {
      if (!to.isWanted() || status < 200) return
      if (status === 200) {
        current = controller
        to.continued(controller)
        return
      }
      to.lost()
      controller.abort(new Error('the server does not have the answer'))
    },
    onResponseData: (controller, chunk) => {
      if (to.isWanted()) to.reader.onResponseData(controller, chunk)
    },
    onResponseEnd: () => {
      if (to.isWanted()) to.reader.onResponseEnd()
    },
    onResponseError: (_controller, error) => {
      if (!to.isWanted()) return
      if (current === undefined) to.lost()
      else to.reader.onResponseError(current, error)
    },
  })
}

/** Tells the server that no one will read the answer, so its slot is free. */
export function forget({ url, headers, baseUrl }: Replay, connectMs: number): void {
  if (known.get(baseUrl) === false) return
  ask(url, { method: 'DELETE', headers, dispatcher: agentFor(connectMs), ...LIMITS })
    .then(({ body }) => body.dump())
    .catch(() => undefined) // the server is gone, and so is the answer
}

// ---- details ----

/** Whether the server keeps answers. */
async function isKept(replay: Replay, connectMs: number): Promise<boolean> {
  const { baseUrl } = replay
  const remembered = known.get(baseUrl)
  if (remembered !== undefined) return remembered // I3
  const can = await probe(replay, connectMs)
  if (can === undefined) return false
  if (known.size >= KNOWN_MAX) known.clear()
  known.set(baseUrl, can)
  return can
}

const LIMITS = { headersTimeout: 2_000, bodyTimeout: 2_000 } // the route only looks into a table
const KNOWN_MAX = 64
const known = new Map<string, boolean>()

/** Undefined if the server did not say. */
async function probe({ id, baseUrl, headers }: Replay, connectMs: number): Promise<boolean | undefined> {
  try {
    const { statusCode, body } = await ask(joinUrl(baseUrl, 'streams/lookup'), {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ conversation_ids: [id] }),
      dispatcher: agentFor(connectMs),
      ...LIMITS,
    })
    const text = await body.text()
    if (statusCode >= 500 || statusCode === 429) return undefined
    return statusCode === 200 && text.trimStart().startsWith('[') // another server may answer any path with 200
  } catch {
    return undefined // not reachable: the next attempt will say so
  }
}

/** The request's headers without those about its body. */
function readHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith('content-')))
}
