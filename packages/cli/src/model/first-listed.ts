/**
 * The first model that a named server lists, asked for as patiently as an answer is. A server that fails is told by its fault,
 * and only one that answers and has no list is said to have none.
 */
import { classify, Fault, faultFrom, isFault, POLICY_DEFAULTS, type RetryPolicy, retrying } from '@breakfall/faults'

type Server = {
  readonly baseUrl: string
  readonly apiKey: string | undefined
  /** The variable that holds the key. */
  readonly apiKeyFrom?: string | undefined
}

/** undefined: it answers, but lists none. Throws the fault where it could not be asked. */
export async function firstModel(server: Server, policy: RetryPolicy = PATIENCE): Promise<string | undefined> {
  try {
    return await retrying(() => ask(server), { policy, faultOf: (thrown) => faultOf(thrown, server) })
  } catch (thrown) {
    throw told(faultFrom(thrown), server)
  }
}

// ---- details, in the order they are used above ----

const PATIENCE = { ...POLICY_DEFAULTS, attemptsMax: 3 }
const ANSWER_MS = 5_000

async function ask({ baseUrl, apiKey }: Server): Promise<string | undefined> {
  const response = await fetch(`${baseUrl.replace(/\/$/, '')}/models`, {
    signal: AbortSignal.timeout(ANSWER_MS),
    headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
  })
  const { ok, status, headers } = response
  const body = await response.text()
  if (NO_LIST.has(status)) return undefined
  if (!ok)
    throw classify(undefined, {
      boundary: 'model',
      phase: 'headers',
      response: { status, headers, body: parsed(body) },
    })
  const list = parsed(body) as { data?: readonly { id?: unknown }[] } | null
  const id = Array.isArray(list?.data) ? list.data.find((entry) => typeof entry?.id === 'string')?.id : undefined
  return id as string | undefined
}

/** Not there, not so, not built: it serves no list. */
const NO_LIST: ReadonlySet<number> = new Set([404, 405, 501])

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text // a page, as of a proxy: kept as it is
  }
}

function faultOf(thrown: unknown, { baseUrl }: Server): Fault {
  if (isFault(thrown)) return thrown
  if (thrown instanceof Error && thrown.name === 'TimeoutError')
    return new Fault('model_stream_stalled', { errorRaw: `GET /models: no answer in ${ANSWER_MS} ms` })
  return classify(thrown, { boundary: 'model', phase: 'headers', address: baseUrl })
}

function told(fault: Fault, { baseUrl, apiKey, apiKeyFrom }: Server): Fault {
  if (fault.category !== 'model_auth_failed') return fault
  const happened =
    apiKey === undefined
      ? `The server at ${baseUrl} needs a key to list its models, and none is set.`
      : `The server at ${baseUrl} refused the key when Breakfall asked for its models.`
  return fault.with({
    message: { happened, advice: `Set a valid key${apiKeyFrom === undefined ? '' : ` in ${apiKeyFrom}`}.` },
  })
}
