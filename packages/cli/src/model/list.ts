/** Asks model servers which models they list, and whether they are there at all. */
import { classify, Fault, faultFrom, isFault, POLICY_DEFAULTS, type RetryPolicy, retrying } from '@breakfall/faults'

export type ListOptions = { readonly apiKey?: string | undefined; readonly timeoutMs?: number | undefined }

const LOCAL_MS = 2_000 // a missing server refuses at once; a server on a busy machine takes a moment
export const NAMED_MS = 5_000 // a server that the user set is worth waiting for

/** The names that `GET /models` lists. Undefined if there is no answer in time, or the server has no list. */
export async function listModels(baseUrl: string, options: ListOptions = {}): Promise<readonly string[] | undefined> {
  const { apiKey, timeoutMs = LOCAL_MS } = options
  try {
    const response = await getModels(baseUrl, apiKey, timeoutMs)
    return response.ok ? idsIn(await response.json()) : undefined
  } catch {
    return undefined // no server, or not a model server
  }
}

/** Why the server cannot be reached. Undefined if it answers at all. */
export async function unreachableFault(baseUrl: string, timeoutMs = NAMED_MS): Promise<Fault | undefined> {
  try {
    const response = await fetch(baseUrl, { signal: AbortSignal.timeout(timeoutMs) })
    await response.body?.cancel()
    return undefined
  } catch (error) {
    if (isTimeout(error))
      return new Fault('model_unreachable', { facts: { address: baseUrl, detail: 'no answer in time' } })
    return classify(error, { boundary: 'model', phase: 'connect', address: baseUrl })
  }
}

type Server = {
  readonly baseUrl: string
  readonly apiKey: string | undefined
  readonly apiKeyVariable: string | undefined
}

/** The first model on the server's list, with retries. Undefined: the server answers, but has no list. Throws a fault if it cannot be asked. */
export async function firstListedModel(
  server: Server,
  policy: RetryPolicy = FEW_ATTEMPTS,
): Promise<string | undefined> {
  try {
    return await retrying(() => ask(server), { policy, faultOf: (thrown) => faultOf(thrown, server) })
  } catch (thrown) {
    throw withKeyAdvice(faultFrom(thrown), server)
  }
}

/** For a server that answers without a list: most likely its address is incomplete, or it has none. */
export async function noListFault({ baseUrl, apiKey }: Omit<Server, 'apiKeyVariable'>): Promise<Fault> {
  const server = baseUrl.replace(/\/+$/, '')
  const isIncomplete =
    lacksPath(baseUrl) && (await getModels(baseUrl, apiKey, NAMED_MS).catch(() => null))?.status === 404
  const error = isIncomplete
    ? `GET ${server}/models is 404. Most servers need /v1 at the end: --base-url ${server}/v1. If yours has no list, pass --model NAME.`
    : `The server at ${baseUrl} does not list its models, so name one: --model NAME, or [model] name in your config.toml`
  return new Fault('invalid_request', { error })
}

/** `http://127.0.0.1:8080`: most servers have their API under a path. */
export const lacksPath = (baseUrl: string): boolean => URL.canParse(baseUrl) && new URL(baseUrl).pathname === '/'

// ---- details, in the order they are used above ----

const getModels = (baseUrl: string, apiKey: string | undefined, timeoutMs: number): Promise<Response> =>
  fetch(`${baseUrl.replace(/\/$/, '')}/models`, {
    signal: AbortSignal.timeout(timeoutMs),
    headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
  })

function idsIn(list: unknown): readonly string[] {
  const data = typeof list === 'object' && list !== null && 'data' in list ? list.data : undefined
  if (!Array.isArray(data)) return []
  return data.flatMap((entry: unknown) =>
    typeof entry === 'object' && entry !== null && 'id' in entry && typeof entry.id === 'string' ? [entry.id] : [],
  )
}

const isTimeout = (error: unknown): boolean => error instanceof Error && error.name === 'TimeoutError'

const FEW_ATTEMPTS = { ...POLICY_DEFAULTS, attemptsMax: 3 }

async function ask({ baseUrl, apiKey }: Server): Promise<string | undefined> {
  const response = await getModels(baseUrl, apiKey, NAMED_MS)
  const { ok, status, headers } = response
  const body = jsonOrText(await response.text())
  if (NO_LIST.has(status)) return undefined
  if (ok) return idsIn(body)[0]
  throw classify(undefined, { boundary: 'model', phase: 'headers', response: { status, headers, body } })
}

/** Not found, method not allowed, not implemented: the server has no list. */
const NO_LIST: ReadonlySet<number> = new Set([404, 405, 501])

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text // a proxy's error page, say: kept for the report
  }
}

function faultOf(thrown: unknown, { baseUrl }: Server): Fault {
  if (isFault(thrown)) return thrown
  if (isTimeout(thrown))
    return new Fault('model_stream_stalled', { errorRaw: `GET /models: no answer in ${NAMED_MS} ms` })
  return classify(thrown, { boundary: 'model', phase: 'headers', address: baseUrl })
}

function withKeyAdvice(fault: Fault, { baseUrl, apiKey, apiKeyVariable }: Server): Fault {
  if (fault.category !== 'model_auth_failed') return fault
  const happened =
    apiKey === undefined
      ? `The server at ${baseUrl} needs a key to list its models, and none is set.`
      : `The server at ${baseUrl} rejected the key when Breakfall asked for its models.`
  const advice = `Set a valid key${apiKeyVariable === undefined ? '' : ` in ${apiKeyVariable}`}.`
  return fault.with({ message: { happened, advice } })
}
