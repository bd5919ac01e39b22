/**
 * Revokes the tokens of a login at its authorization server (RFC 7009).
 *
 * I1  Best effort: whatever the server says, the caller forgets the login.
 * I2  The refresh token goes first: without it, no one can get another access token.
 */
import { boundedFetch } from '../bounded-fetch.ts'
import type { StoredLogin } from './stored-login.ts'

export type Revocation =
  | { readonly kind: 'revoked' }
  /** The authorization server names no address for it. */
  | { readonly kind: 'not_offered' }
  | { readonly kind: 'failed'; readonly why: string }

export async function revokeLogin(login: StoredLogin, limitMs: number = LIMIT_MS): Promise<Revocation> {
  const signal = AbortSignal.timeout(limitMs)
  const endpoint = addressIn(login.metadata) ?? addressIn(await openIdDocument(login, signal))
  if (endpoint === undefined) return { kind: 'not_offered' }
  const { access_token: access, refresh_token: refresh } = login.tokens
  const revoke = (hint: string, token: string): Promise<string | undefined> =>
    failureOf(endpoint, login, { token, token_type_hint: hint }, signal)
  const refused = refresh === undefined ? undefined : await revoke('refresh_token', refresh) // I2
  const also = await revoke('access_token', access)
  // A server may revoke only refresh tokens: the access token then ends with its refresh token, or when it expires.
  const why = refused ?? (refresh !== undefined && also?.includes(UNSUPPORTED) === true ? undefined : also)
  return why === undefined ? { kind: 'revoked' } : { kind: 'failed', why }
}

// ---- details, in the order they are used above ----

const LIMIT_MS = 10_000 // for both requests; a person waits for it
const UNSUPPORTED = 'unsupported_token_type'
const BODY_CHARS = 4_000

function addressIn(metadata: unknown): URL | undefined {
  const named = field(metadata, 'revocation_endpoint')
  const url = typeof named === 'string' && URL.canParse(named) ? new URL(named) : undefined
  return url?.protocol === 'https:' || url?.protocol === 'http:' ? url : undefined
}

const field = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? new Map(Object.entries(value)).get(name) : undefined

/** The SDK keeps only some fields of what an OpenID provider says about itself. Undefined if there is no such document. */
async function openIdDocument({ metadata }: StoredLogin, signal: AbortSignal): Promise<unknown> {
  const issuer = metadata?.issuer.replace(/\/$/, '')
  if (issuer === undefined) return undefined
  try {
    const response = await boundedFetch()(`${issuer}/.well-known/openid-configuration`, { signal })
    const document: unknown = await response.json()
    return response.ok && field(document, 'issuer') === metadata?.issuer ? document : undefined
  } catch {
    return undefined // it is no OpenID provider, or it is away: nothing can be revoked there
  }
}

/** Undefined if the token is revoked. The server answers 200 for a token that it does not know, too. */
async function failureOf(
  endpoint: URL,
  login: StoredLogin,
  fields: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { headers, body } = clientOf(login)
  try {
    const response = await boundedFetch()(endpoint, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json', ...headers },
      body: new URLSearchParams({ ...fields, ...body }).toString(),
      redirect: 'error', // a token goes only where the metadata says
      signal,
    })
    const text = (await response.text()).slice(0, BODY_CHARS)
    if (response.ok) return undefined
    const [, code] = /"error"\s*:\s*"([\w-]{1,100})"/.exec(text) ?? []
    return `it answered ${response.status}${code === undefined ? '' : ` (${code})`}`
  } catch (thrown) {
    return signal.aborted ? 'it did not answer in time' : `it cannot be reached${causeOf(thrown)}`
  }
}

/** How the client says who it is: with its secret, if it has one. */
function clientOf({ client, metadata }: StoredLogin): {
  readonly headers: Readonly<Record<string, string>>
  readonly body: Readonly<Record<string, string>>
} {
  const { client_id: id, client_secret: secret } = client
  if (secret === undefined) return { headers: {}, body: { client_id: id } }
  const methods = field(metadata, 'revocation_endpoint_auth_methods_supported')
  const isPosted = Array.isArray(methods) && !methods.includes('client_secret_basic')
  if (isPosted) return { headers: {}, body: { client_id: id, client_secret: secret } }
  const pair = [id, secret].map(encodeURIComponent).join(':')
  return { headers: { authorization: `Basic ${Buffer.from(pair).toString('base64')}` }, body: {} }
}

function causeOf(thrown: unknown): string {
  const cause: unknown = thrown instanceof Error ? thrown.cause : undefined
  const code: unknown = typeof cause === 'object' && cause !== null && 'code' in cause ? cause.code : undefined
  return typeof code === 'string' ? ` (${code})` : ''
}
