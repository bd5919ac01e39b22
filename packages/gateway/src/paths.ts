/** Which requests the gateway heals. Forgives the usual mistakes in base URLs: a trailing slash, and `/v1` twice. Pure. */
import type { RelayApiName } from '@breakfall/model'

/** A request for an answer, in an API that the gateway heals. */
export type ModelRoute = {
  readonly api: RelayApiName
  /** Only for Gemini, which has the model and whether to stream in the path. */
  readonly path?: string | undefined
  readonly stream?: boolean | undefined
}

/** The path as the client meant it. */
export function normalised(path: string): string {
  const once = path.replace(BASE, '/v1/')
  const bare = once.replace(/\/+$/, '')
  if (GEMINI.test(bare)) return bare.replace(/^\/+/, '/')
  return Object.hasOwn(HEALED, bare) ? bare : once
}

/** What a POST to this path asks for; undefined if the gateway does not heal it. */
export function modelRoute(path: string): ModelRoute | undefined {
  if (Object.hasOwn(HEALED, path)) return HEALED[path]
  const method = GEMINI.exec(path)?.[1]
  return method === undefined ? undefined : { api: 'gemini', path: path.slice(1), stream: method.startsWith('stream') }
}

/** A path that some servers take for a route of a model: they decode it, ignore cases, or skip an empty segment. */
export function isLikeModelRoute(path: string): boolean {
  const plain = (decoded(path) ?? path).toLowerCase().replaceAll(/\/+/g, '/').replace(/\/$/, '')
  return Object.hasOwn(HEALED, normalised(plain)) || /:(?:stream)?generatecontent$/.test(plain)
}

/** The model that a path asks for an answer, as Vertex AI's do, whose bodies do not name one. */
export const modelInPath = (path: string): string | undefined =>
  /\/models\/([^/:]+):(?:generateContent|streamGenerateContent|rawPredict|streamRawPredict)$/.exec(
    decoded(path) ?? path,
  )?.[1]

/** Whether the gateway serves this path at all. */
export const isServed = (path: string): boolean => path === '/v1' || /^\/v1(?:beta|alpha)?\//.test(path)

/**
 * What is wrong with a path that servers read in different ways: a server that decodes it once more, or drops what follows a semicolon,
 * would find a route that the gateway never saw. Undefined if every server reads the same.
 */
export function ambiguityIn(path: string): string | undefined {
  for (const segment of path.split('/')) {
    const plain = decoded(segment)
    if (plain === undefined) return 'an invalid percent escape'
    if (/[\\;]/.test(plain)) return 'a backslash or a semicolon'
    if (/%[0-9a-f]{2}/i.test(plain)) return 'a percent escape that is escaped itself'
    if (/[\p{Cc}]/u.test(plain)) return 'a control character'
    if (plain.split('/').some((part) => part === '.' || part === '..')) return 'a dot segment'
  }
  return undefined
}

/** The API whose error shape a client at this path understands. */
export function errorApi(path: string): RelayApiName {
  if (/^\/v1(?:beta|alpha)\//.test(path)) return 'gemini'
  return /^\/v1\/messages(?:\/|$)/.test(path) ? 'anthropic-messages' : 'openai-chat'
}

// ---- details ----

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

const HEALED: Readonly<Record<string, ModelRoute>> = {
  '/v1/chat/completions': { api: 'openai-chat' },
  '/v1/responses': { api: 'openai-responses' },
  '/v1/messages': { api: 'anthropic-messages' },
}

/** `/v1//messages`, `/v1/v1/messages`, `//v1/messages`. */
const BASE = /^\/+v1\/+(?:v1\/+)*/

const GEMINI = /^\/+v1(?:beta|alpha)\/(?:tunedM|m)odels\/[^/:]+:(streamGenerateContent|generateContent)$/
