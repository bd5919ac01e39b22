/**
 * Sends the access token of a stored login, and refreshes it.
 *
 * I1  It never starts a login: only a person does. Without a login that works, the server's refusal stands.
 * I2  One refresh at a time, and none for a token that was just replaced: many requests may be refused at once.
 * I3  A refresh that could not reach its server says nothing about the login.
 */
import { Fault } from '@breakfall/faults'
import {
  type AuthProvider,
  OAuthError,
  OAuthErrorCode,
  refreshAuthorization,
  UnauthorizedError,
} from '@modelcontextprotocol/client'
import { boundedFetch } from '../bounded-fetch.ts'
import { systemNow } from '../clock.ts'
import { readLogin, type StoredLogin, writeLogin } from './stored-login.ts'

export type BearerOptions = {
  readonly name: string
  readonly url: string
  readonly address: string
  readonly stateDir: string
  /** A token is in use, so it must not appear anywhere. */
  readonly onSecrets: (secrets: readonly string[]) => void
}

const REFRESH_MS = 30_000 // for one request to the authorization server
const AHEAD_MS = 30_000 // a token that expires sooner is refreshed before it is used
const FRESH_MS = 5_000 // I2

export class Bearer implements AuthProvider {
  readonly #options: BearerOptions
  #used: string | undefined
  #refreshedAt = Number.NEGATIVE_INFINITY
  #refreshing: Promise<StoredLogin> | undefined

  constructor(options: BearerOptions) {
    this.#options = options
  }

  async token(): Promise<string | undefined> {
    const login = this.#login()
    if (login === undefined) return undefined
    const isOld = login.expiresAt !== undefined && login.expiresAt - systemNow() < AHEAD_MS
    const current = isOld && hasRefresh(login) ? await this.#refresh(login).catch(() => login) : login // a refusal follows
    this.#used = current.tokens.access_token
    this.#options.onSecrets(secretsOf(current))
    return this.#used
  }

  /** The server refused the token. Returns if another one may work. */
  async onUnauthorized(): Promise<void> {
    const login = this.#login()
    if (login === undefined || !hasRefresh(login)) throw new UnauthorizedError('it asks for a login') // I1
    const isReplaced = login.tokens.access_token !== this.#used || systemNow() - this.#refreshedAt < FRESH_MS // I2
    if (!isReplaced) await this.#refresh(login)
  }

  // ---- details ----

  #login(): StoredLogin | undefined {
    const { stateDir, name, url } = this.#options
    return readLogin(stateDir, name, url)
  }

  #refresh(login: StoredLogin): Promise<StoredLogin> {
    this.#refreshing ??= this.#refreshOnce(login).finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  async #refreshOnce(login: StoredLogin): Promise<StoredLogin> {
    const { name, address, stateDir } = this.#options
    const { authorizationServerUrl, metadata, client, resource, tokens: old } = login
    try {
      const tokens = await refreshAuthorization(authorizationServerUrl, {
        ...(metadata === undefined ? {} : { metadata }),
        ...(resource === undefined ? {} : { resource }),
        clientInformation: client,
        refreshToken: old.refresh_token ?? '',
        fetchFn: (url, init) => boundedFetch()(url, { ...init, signal: AbortSignal.timeout(REFRESH_MS) }),
      })
      const refreshed = { ...login, tokens: { ...old, ...tokens }, ...expiryOf(tokens.expires_in) }
      writeLogin(stateDir, name, refreshed)
      this.#refreshedAt = systemNow()
      return refreshed
    } catch (thrown) {
      const isRefused = OAuthError.isInstance(thrown) && !NOT_ITS_FAULT.has(thrown.code)
      if (isRefused) throw new UnauthorizedError('its login is over')
      const detail = 'its login could not be refreshed now'
      throw new Fault('mcp_unreachable', { cause: thrown, sideEffects: 'none', facts: { name, address, detail } }) // I3
    }
  }
}

export const expiryOf = (expiresInS: number | undefined): { readonly expiresAt?: number } =>
  expiresInS === undefined ? {} : { expiresAt: systemNow() + expiresInS * 1_000 }

const NOT_ITS_FAULT: ReadonlySet<string> = new Set([
  OAuthErrorCode.ServerError,
  OAuthErrorCode.TemporarilyUnavailable,
  OAuthErrorCode.TooManyRequests,
])

const hasRefresh = ({ tokens }: StoredLogin): boolean => (tokens.refresh_token ?? '') !== ''

const secretsOf = ({ tokens, client }: StoredLogin): readonly string[] =>
  [tokens.access_token, tokens.refresh_token, client.client_secret].filter((text) => text !== undefined)
