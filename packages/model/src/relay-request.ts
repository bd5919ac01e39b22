/** The request as it goes to a target, and the head of the answer as it goes back: what is passed on and what is not. */
import type { IncomingHttpHeaders } from 'node:http'
import type { AttemptRequest } from './attempt.ts'
import { withPrefill } from './openai-request.ts'
import { type ChosenProfile, chooseProfile } from './profiles.ts'
import type { RequiredParameters } from './proof.ts'
import type { RelayRequest, RelayTarget } from './relay.ts'
import { joinUrl, requiredOf } from './target.ts'

/** The body is the client's own bytes unless another model or a continuation is asked for. */
export function upstreamRequest(request: RelayRequest, target: RelayTarget, kept: string): AttemptRequest {
  const path = request.api === 'openai-chat' ? 'chat/completions' : 'messages'
  const url = joinUrl(target.baseUrl, path)
  return {
    method: request.method,
    url: request.search === '' ? url : url + (url.includes('?') ? `&${request.search.slice(1)}` : request.search),
    headers: upstreamHeaders(request.headers, target),
    body: bodyFor(request, target, kept),
  }
}

/** Ours to set, or about one connection only. */
const NOT_PASSED_ON = new Set([
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

/** Where clients put their keys. */
const KEYS = new Set(['authorization', 'x-api-key', 'api-key', 'x-goog-api-key', 'cookie'])

export function upstreamHeaders(
  headers: Readonly<Record<string, string>>,
  target: Pick<RelayTarget, 'headers' | 'withoutKeys'>,
): Record<string, string> {
  const out: Record<string, string> = {}
  // What a client names in `connection` is about that connection, as well.
  const named = new Set((headers['connection'] ?? '').toLowerCase().split(/[\s,]+/))
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase()
    if (!NOT_PASSED_ON.has(lower) && !named.has(lower) && !(target.withoutKeys === true && KEYS.has(lower)))
      out[lower] = value
  }
  for (const [name, value] of Object.entries(target.headers ?? {})) out[name.toLowerCase()] = value
  out['accept-encoding'] = 'identity' // what we are to read and heal must not be compressed
  return out
}

const NOT_PASSED_BACK = new Set([
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

export function clientHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const out: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || NOT_PASSED_BACK.has(name)) continue
    out[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return out
}

/** The model that the ledger names. */
export function modelOf(request: RelayRequest, target: RelayTarget): string {
  const { model } = request.json
  return target.model ?? (typeof model === 'string' ? model : '')
}

/** A key that was meant for one host is not shown to another. */
export function isSameHost(url: string, other: string): boolean {
  return URL.canParse(url) && URL.canParse(other) && new URL(url).hostname === new URL(other).hostname
}

export function profileOf(target: RelayTarget): ChosenProfile {
  return chooseProfile(target.profile, target.baseUrl)
}

/** Required parameters of the tools in a client's body, in either API's shape. */
export function requiredIn(json: Readonly<Record<string, unknown>>): RequiredParameters {
  const required = new Map<string, readonly string[]>()
  const { tools } = json
  for (const tool of Array.isArray(tools) ? (tools as Tool[]) : []) {
    if (typeof tool !== 'object' || tool === null) continue
    const name = tool.function?.name ?? tool.name
    if (typeof name === 'string') required.set(name, requiredOf(tool.function?.parameters ?? tool.input_schema))
  }
  return required
}

// ---- details ----

type Tool = { name?: unknown; input_schema?: unknown; function?: { name?: unknown; parameters?: unknown } } | null

function bodyFor(request: RelayRequest, target: RelayTarget, kept: string): Buffer | string {
  if (kept === '' && target.model === undefined) return request.body
  const json = target.model === undefined ? { ...request.json } : { ...request.json, model: target.model }
  return JSON.stringify(kept === '' ? json : withPrefill(json, profileOf(target), kept))
}
