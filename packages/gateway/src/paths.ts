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

/** Whether the gateway serves this path at all. */
export const isServed = (path: string): boolean => path === '/v1' || /^\/v1(?:beta|alpha)?\//.test(path)

/** The API whose error shape a client at this path understands. */
export function errorApi(path: string): RelayApiName {
  if (/^\/v1(?:beta|alpha)\//.test(path)) return 'gemini'
  return /^\/v1\/messages(?:\/|$)/.test(path) ? 'anthropic-messages' : 'openai-chat'
}

// ---- details ----

const HEALED: Readonly<Record<string, ModelRoute>> = {
  '/v1/chat/completions': { api: 'openai-chat' },
  '/v1/responses': { api: 'openai-responses' },
  '/v1/messages': { api: 'anthropic-messages' },
}

/** `/v1//messages`, `/v1/v1/messages`, `//v1/messages`. */
const BASE = /^\/+v1\/+(?:v1\/+)*/

const GEMINI = /^\/+v1(?:beta|alpha)\/(?:tunedM|m)odels\/[^/:]+:(streamGenerateContent|generateContent)$/
