/**
 * An OAuth login: finds the authorization server, registers as a client, sends the user to it, and receives the answer at an
 * address on this computer (RFC 8252). The SDK does the protocol; nothing is stored before it is complete.
 */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Fault } from '@breakfall/faults'
import { createHttpServer, sameToken } from '@breakfall/wire/node'
import {
  auth,
  computeScopeUnion,
  extractWWWAuthenticateParams,
  type OAuthClientInformationContext,
  type OAuthClientInformationMixed,
  type OAuthClientMetadata,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthTokens,
  type StoredOAuthClientInformation,
} from '@modelcontextprotocol/client'
import { boundedFetch } from '../bounded-fetch.ts'
import { isoNow } from '../clock.ts'
import { expiryOf } from './bearer.ts'
import type { StoredLogin } from './stored-login.ts'

export type LogInOptions = {
  readonly name: string
  readonly url: string
  /** For servers that do not register clients automatically. An https address is the document that describes the client. */
  readonly clientId?: string | undefined
  readonly clientSecret?: string | undefined
  /** The login so far: rights that a call missed are asked for, with those that it has. */
  readonly before?: StoredLogin | undefined
  readonly signal: AbortSignal
  /** The page to open. */
  readonly onPage: (page: URL) => void
  /** The address that the browser ended up at, if the user pastes it. */
  readonly pasted?: Promise<string> | undefined
}

export async function logIn(options: LogInOptions): Promise<StoredLogin> {
  const { name, url, signal } = options
  const answered = Promise.withResolvers<URLSearchParams>()
  const state = randomBytes(24).toString('base64url')
  const take = (params: URLSearchParams): boolean => {
    const isOurs = sameToken(params.get('state') ?? '', state) // any program on this computer can call this address
    if (isOurs) answered.resolve(params)
    return isOurs
  }
  const server = createHttpServer({ handle: (req, res) => answer(req, res, take) })
  const { port } = await server.listen(0, '127.0.0.1')
  try {
    const session = new LoginSession(`http://127.0.0.1:${port}${CALLBACK}`, state, options)
    const { scope, ...challenge } = await challengeOf(url, signal)
    const { missingScope, tokens } = options.before ?? {}
    const wanted = missingScope === undefined ? scope : computeScopeUnion(scope, tokens?.scope, missingScope)
    const given = {
      serverUrl: url,
      ...challenge,
      fetchFn: bounded(signal),
      ...(wanted === undefined ? {} : { scope: wanted }),
    }
    if ((await auth(session, given)) === 'REDIRECT') {
      const code = codeIn(name, await first(answered.promise, take, options))
      await auth(session, { ...given, authorizationCode: code.code, ...(code.iss === null ? {} : { iss: code.iss }) })
    }
    return session.login()
  } catch (thrown) {
    if (signal.aborted) throw new Fault('cancelled', { cause: thrown })
    throw thrown
  } finally {
    await server.close({ graceMs: 500 }) // time for the browser to load the final page
  }
}

// ---- details ----

const CALLBACK = '/callback'
const REQUEST_MS = 30_000

/** What one login learns on its way. */
class LoginSession implements OAuthClientProvider {
  readonly redirectUrl: string
  readonly clientMetadata: OAuthClientMetadata
  readonly #state: string
  readonly #options: LogInOptions
  #client: OAuthClientInformationMixed | undefined
  #tokens: OAuthTokens | undefined
  #verifier = ''
  #discovery: OAuthDiscoveryState | undefined
  #resource: string | undefined
  #scope: string | undefined

  constructor(redirectUrl: string, state: string, options: LogInOptions) {
    this.redirectUrl = redirectUrl
    this.#state = state
    this.#options = options
    const { clientId, clientSecret } = options
    const secret = clientSecret === undefined ? {} : { client_secret: clientSecret }
    this.#client = clientId === undefined ? undefined : { client_id: clientId, ...secret }
    this.clientMetadata = {
      client_name: 'Breakfall',
      redirect_uris: [redirectUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    }
  }

  login(): StoredLogin {
    const { url, name } = this.#options
    if (this.#client === undefined || this.#tokens === undefined || this.#discovery === undefined)
      throw new Fault('mcp_protocol_error', { facts: { name, detail: 'its login ended without a token' } })
    const { authorizationServerUrl, authorizationServerMetadata: metadata } = this.#discovery
    return {
      url,
      loggedInAt: isoNow(),
      authorizationServerUrl,
      client: this.#client,
      tokens: { ...(this.#scope === undefined ? {} : { scope: this.#scope }), ...this.#tokens }, // RFC 6749: not repeated if all were granted
      ...(metadata === undefined ? {} : { metadata }),
      ...(this.#resource === undefined ? {} : { resource: this.#resource }),
      ...expiryOf(this.#tokens.expires_in),
    }
  }

  state(): string {
    return this.#state
  }

  /** A client id that the user gives belongs to the server that they log in at. */
  clientInformation(context?: OAuthClientInformationContext): StoredOAuthClientInformation | undefined {
    return this.#client === undefined || context === undefined
      ? this.#client
      : { issuer: context.issuer, ...this.#client }
  }

  saveClientInformation(client: OAuthClientInformationMixed): void {
    this.#client = client
  }

  tokens(): OAuthTokens | undefined {
    return this.#tokens
  }

  saveTokens(tokens: OAuthTokens): void {
    this.#tokens = tokens
  }

  redirectToAuthorization(page: URL): void {
    this.#scope = page.searchParams.get('scope') ?? undefined
    this.#options.onPage(page)
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier
  }

  codeVerifier(): string {
    return this.#verifier
  }

  saveDiscoveryState(state: OAuthDiscoveryState): void {
    this.#discovery = state
  }

  discoveryState(): OAuthDiscoveryState | undefined {
    return this.#discovery
  }

  saveResourceUrl(resource: string | URL): void {
    this.#resource = String(resource)
  }
}

/** Where the server says that its authorization server is described. A request without effects. */
async function challengeOf(url: string, signal: AbortSignal): Promise<{ resourceMetadataUrl?: URL; scope?: string }> {
  const response = await bounded(signal)(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
  })
  await response.body?.cancel()
  if (!response.headers.has('www-authenticate')) return {}
  const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response)
  return {
    ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }),
    ...(scope === undefined ? {} : { scope }),
  }
}

const bounded =
  (signal: AbortSignal) =>
  (url: string | URL, init: RequestInit = {}): Promise<Response> =>
    boundedFetch()(url, { ...init, signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS)]) })

async function answer(req: IncomingMessage, res: ServerResponse, take: (params: URLSearchParams) => boolean) {
  const { pathname, searchParams } = new URL(req.url ?? '/', 'http://127.0.0.1')
  const isTaken = req.method === 'GET' && pathname === CALLBACK && take(searchParams)
  const words = isTaken
    ? 'Breakfall has its answer. You can close this page.'
    : 'This is not the login that Breakfall waits for.'
  res.writeHead(isTaken ? 200 : 404, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' })
  res.end(`${words}\n`)
}

/** The answer, from the browser or pasted by the user. */
async function first(
  brought: Promise<URLSearchParams>,
  take: (params: URLSearchParams) => boolean,
  { signal, pasted }: LogInOptions,
): Promise<URLSearchParams> {
  const aborted = Promise.withResolvers<never>()
  const abort = (): void => aborted.reject(new Fault('cancelled', { cause: signal.reason }))
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  void pasted?.then((text) => {
    if (!URL.canParse(text.trim()) || !take(new URL(text.trim()).searchParams))
      aborted.reject(
        new Fault('invalid_request', { error: 'This address does not belong to the login that was started' }),
      )
  })
  try {
    return await Promise.race([brought, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

function codeIn(name: string, params: URLSearchParams): { readonly code: string; readonly iss: string | null } {
  const code = params.get('code')
  if (code !== null && code !== '') return { code, iss: params.get('iss') }
  const why = params.get('error_description') ?? params.get('error') ?? 'no code'
  throw new Fault('mcp_auth_failed', {
    error: `The login at MCP server ${name} was refused: ${why.slice(0, 200)}. Nothing was stored.`,
  })
}
