/** Which requests the gateway heals. Forgives the usual mistakes in base URLs: a trailing slash, and `/v1` twice. Pure. */
import type { ApiName } from '@breakfall/model'

/** The path as the client meant it. */
export function normalised(path: string): string {
  const once = path.replace(BASE, '/v1/')
  const bare = once.replace(/\/+$/, '')
  return Object.hasOwn(HEALED, bare) ? bare : once
}

/** The API of a POST to this path; undefined if the gateway does not heal it. */
export const healedApi = (path: string): ApiName | undefined => (Object.hasOwn(HEALED, path) ? HEALED[path] : undefined)

/** The API whose error shape a client at this path understands. */
export const errorApi = (path: string): ApiName =>
  /^\/v1\/messages(?:\/|$)/.test(path) ? 'anthropic-messages' : 'openai-chat'

// ---- details ----

const HEALED: Readonly<Record<string, ApiName>> = {
  '/v1/chat/completions': 'openai-chat',
  '/v1/messages': 'anthropic-messages',
}

/** `/v1//messages`, `/v1/v1/messages`, `//v1/messages`. */
const BASE = /^\/+v1\/+(?:v1\/+)*/
