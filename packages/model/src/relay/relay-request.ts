/** The request as it goes to a target, and the head of the answer as it goes back: what is forwarded and what is not. */
import type { IncomingHttpHeaders } from 'node:http'
import type { AttemptRequest } from '../attempt/attempt.ts'
import { DIALECTS } from '../dialects/dialects.ts'
import { objectOr, objectsIn } from '../lib/json.ts'
import { type ChosenProfile, chooseProfile } from '../contract/profiles.ts'
import type { RequiredParameters } from '../dialects/proof.ts'
import type { PathPlace, RelayRequest, RelayTarget } from './relay.ts'
import type { RequestFields } from './request-body.ts'
import { withChanges } from './request-body.ts'
import { joinUrl, requiredOf } from '../attempt/target.ts'

/** The body is sent unchanged unless another model or a continuation is asked for. */
export function upstreamRequest(request: RelayRequest, target: RelayTarget, prefill: string): AttemptRequest {
  const url = urlOf(request, target)
  return {
    url: withSearch(url, upstreamSearch(request.search, target)),
    headers: upstreamHeaders(request.headers, target),
    body: bodyFor(request, target, prefill),
  }
}

/** The client asked the provider to keep generating without a connection, and the provider can. */
export const isBackground = ({ api, json }: RelayRequest, target: RelayTarget): boolean =>
  api === 'openai-responses' && json['background'] === true && profileOf(target).reattach === 'responses'

/** Set by us, or about one connection only. */
const NOT_FORWARDED = new Set([
  'host',
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'content-length',
  'accept-encoding',
])

/**
 * All that another host gets. Clients put keys into headers of any name (`x-api-key`, `helicone-auth`, `x-portkey-api-key`, cookies, …), so
 * what is not known to be harmless is left out.
 */
const WITHOUT_KEYS: ReadonlySet<string> = new Set([
  'accept',
  'accept-language',
  'anthropic-beta',
  'anthropic-version',
  'content-encoding',
  'content-type',
  'idempotency-key',
  'openai-beta',
  'traceparent',
  'tracestate',
  'user-agent',
  'x-client-request-id',
  'x-request-id',
])
const SDK_FACTS = 'x-stainless-' // version, language, timeout of the SDKs of OpenAI and Anthropic

/** And of the query. Gemini's clients send their key there. */
const QUERY_WITHOUT_KEYS: ReadonlySet<string> = new Set([
  'after',
  'after_id',
  'alt',
  'api-version',
  'before',
  'before_id',
  'beta',
  'include',
  'include[]',
  'limit',
  'order',
  'pageSize',
  'pageToken',
  'starting_after',
  'stream',
])

const OURS = 'x-breakfall-'

/** Headers that are named in `connection` are about that connection, too. */
const namedIn = (connection = ''): ReadonlySet<string> => new Set(connection.toLowerCase().split(/[\s,]+/))

type KeyRule = Pick<RelayTarget, 'withoutKeys'>

const isForAnyHost = (name: string): boolean => WITHOUT_KEYS.has(name) || name.startsWith(SDK_FACTS)

export function upstreamHeaders(
  headers: Readonly<Record<string, string>>,
  target: Pick<RelayTarget, 'headers'> & KeyRule,
): Record<string, string> {
  const out: Record<string, string> = {}
  const named = namedIn(headers['connection'])
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase()
    if (NOT_FORWARDED.has(lower) || named.has(lower)) continue
    if (target.withoutKeys !== true || isForAnyHost(lower)) out[lower] = value
  }
  for (const [name, value] of Object.entries(target.headers ?? {})) out[name.toLowerCase()] = value
  out['accept-encoding'] = 'identity' // a compressed answer could not be read and healed
  return out
}

/** The client's query, with its question mark, or nothing. */
export function upstreamSearch(search: string, { withoutKeys }: KeyRule): string {
  if (withoutKeys !== true || search === '') return search
  const kept = [...new URLSearchParams(search)].filter(([name]) => QUERY_WITHOUT_KEYS.has(name))
  return kept.length === 0 ? '' : `?${new URLSearchParams(kept).toString()}`
}

const NOT_RETURNED = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
])

export function clientHeaders(headers: IncomingHttpHeaders): Record<string, string | readonly string[]> {
  const out: Record<string, string | readonly string[]> = {}
  const named = namedIn(headers.connection)
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || NOT_RETURNED.has(name) || named.has(name)) continue
    if (name.startsWith(OURS)) continue // a server that says so would speak for the gateway
    out[name] = Array.isArray(value) && name !== 'set-cookie' ? value.join(', ') : value
  }
  return out
}

/** The model that the ledger names. */
export function modelOf(request: RelayRequest, target: RelayTarget): string {
  const { model } = request.json
  return target.model ?? modelInPath(request.place?.path ?? '') ?? (typeof model === 'string' ? model : '')
}

/** A key for one origin is not sent to another: neither to another host or port, nor unencrypted to the same one. */
export function isSameOrigin(url: string, other: string): boolean {
  return URL.canParse(url) && URL.canParse(other) && new URL(url).origin === new URL(other).origin
}

export function profileOf(target: RelayTarget): ChosenProfile {
  return chooseProfile(target.profile, target.baseUrl)
}

/** Required parameters of the tools in a client's body, in any API's shape. */
export function requiredIn(json: Readonly<Record<string, unknown>>): RequiredParameters {
  const required = new Map<string, readonly string[]>()
  for (const tool of objectsIn(json['tools'])) {
    const called = objectOr(tool['function'])
    const name = called['name'] ?? tool['name']
    if (typeof name === 'string')
      required.set(name, requiredOf(called['parameters'] ?? tool['parameters'] ?? tool['input_schema']))
    for (const declared of objectsIn(tool['functionDeclarations']))
      if (typeof declared['name'] === 'string')
        required.set(declared['name'], requiredOf(declared['parameters'] ?? declared['parametersJsonSchema']))
  }
  return required
}

/** How many answers the client asked for at once. */
export function choicesAsked({ n, generationConfig, generation_config }: RequestFields): number {
  const config = objectOr(generationConfig ?? generation_config)
  const asked = Number(n ?? config['candidateCount'] ?? config['candidate_count'])
  return asked > 1 ? asked : 1
}

/** The most that the client wants to be answered, in tokens. */
export function outputLimit(json: RequestFields): number | undefined {
  const { maxOutputTokens, max_output_tokens } = objectOr(json.generationConfig ?? json.generation_config)
  const inBody = json.max_output_tokens ?? json.max_completion_tokens ?? json.max_tokens
  const limit = inBody ?? maxOutputTokens ?? max_output_tokens
  return typeof limit === 'number' ? limit : undefined
}

/** The client offers the model something to run. */
export const offersTools = (json: Readonly<Record<string, unknown>>): boolean =>
  objectsIn(json['tools']).length > 0 || objectsIn(json['functions']).length > 0

/** The model that a path asks. */
export function modelInPath(path: string): string | undefined {
  const found = MODEL_IN_PATH.exec(path)?.[2]
  try {
    return found === undefined ? undefined : decodeURIComponent(found)
  } catch {
    return found // for the log only: such a path is not forwarded
  }
}

/**
 * The address of a client's path at an upstream. A floating tail goes under its base. A rooted path goes to its origin and what its
 * base has before a version. A common beginning of path and base is not repeated.
 */
export function addressOf(baseUrl: string, { path, tail }: PathPlace): string {
  const url = new URL(baseUrl)
  const base = url.pathname.replace(/\/+$/, '')
  const isInside = path.startsWith(`${base}/`)
  const isPlain = tail !== undefined && (path === `/${tail}` || path === `/v1/${tail}`)
  if (isInside && !isPlain) url.pathname = path
  else url.pathname = tail === undefined ? base.replace(VERSION, '') + path : `${base}/${tail}`
  return url.href
}

// ---- details ----

/** Bedrock's ids have colons. */
const MODEL_IN_PATH = /(\/(?:(?:tunedM|m)odels|deployments|engines)\/|^\/model\/)((?<=^\/model\/)[^/]+|[^/:]+)/

/** At the end of a base: `/v1`, `/v1beta`, `/openai/v1`, `/v1beta/openai`. */
const VERSION = /(?:\/v\d\w*)?(?:\/openai)?(?:\/v\d\w*)?$/

function urlOf({ api, place }: RelayRequest, { baseUrl, model }: RelayTarget): string {
  if (place === undefined) return joinUrl(baseUrl, DIALECTS[api].path)
  if (model === undefined) return addressOf(baseUrl, place)
  const name = place.path.startsWith('/model/') ? encodeURIComponent(model) : model
  // A tuned model has another path than all others.
  const path = place.path.replace(MODEL_IN_PATH, (_, before: string) => before.replace('tunedM', 'm') + name)
  return addressOf(baseUrl, { ...place, path })
}

const withSearch = (url: string, search: string): string =>
  search === '' ? url : url + (url.includes('?') ? `&${search.slice(1)}` : search)

function bodyFor(request: RelayRequest, target: RelayTarget, prefill: string): readonly Buffer[] {
  const { api, body, place } = request
  if (prefill === '' && target.model === undefined) return body.blocks
  const isInPath = modelInPath(place?.path ?? '') !== undefined
  const model = target.model === undefined || isInPath ? {} : { model: target.model }
  const asked = prefill === '' ? undefined : DIALECTS[api].withPrefill?.({}, profileOf(target), prefill)
  const { messages, ...flags } = asked ?? {}
  return withChanges(body, { ...model, ...flags }, Array.isArray(messages) ? messages : [])
}
