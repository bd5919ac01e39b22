/**
 * Stored OAuth logins: one file per server in the state folder. Loads no MCP code.
 *
 * I1  Only the owner can read a file (0600), even while it is being written, and a crash leaves the old or the new one.
 * I2  A login belongs to one URL. Its tokens are not sent to any other URL.
 */
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isObject } from '@breakfall/faults/internal'
import { replaceFile } from '@breakfall/supervisor/platform'
import type {
  AuthorizationServerMetadata,
  OAuthClientInformationMixed,
  OAuthTokens,
} from '@modelcontextprotocol/client'

export type StoredLogin = {
  readonly url: string
  /** Changes with every login, not with a refresh. */
  readonly loggedInAt: string
  readonly authorizationServerUrl: string
  readonly metadata?: AuthorizationServerMetadata | undefined
  /** The audience of the tokens, as the server names it. */
  readonly resource?: string | undefined
  readonly client: OAuthClientInformationMixed
  readonly tokens: OAuthTokens
  /** Of the access token, in milliseconds since 1970. */
  readonly expiresAt?: number | undefined
  /** What a call needed and the tokens did not allow. The next login asks for it. */
  readonly missingScope?: string | undefined
}

/** Undefined if there is none for this URL (I2). A damaged file counts as none: a new login replaces it. */
export function readLogin(stateDir: string, name: string, url: string): StoredLogin | undefined {
  try {
    const parsed: unknown = JSON.parse(readFileSync(fileOf(stateDir, name), 'utf8'))
    return isLogin(parsed) && parsed.url === url ? parsed : undefined
  } catch {
    return undefined // no login yet
  }
}

/** Returns the file. */
export function writeLogin(stateDir: string, name: string, login: StoredLogin): string {
  mkdirSync(join(stateDir, FOLDER), { recursive: true, mode: 0o700 })
  const file = fileOf(stateDir, name)
  replaceFile(file, JSON.stringify(login), { isDurable: true, isShared: true }) // I1
  return file
}

/** False if there was none. */
export function removeLogin(stateDir: string, name: string): boolean {
  try {
    rmSync(fileOf(stateDir, name))
    return true
  } catch {
    return false // there is none
  }
}

// ---- details ----

const FOLDER = 'mcp-logins'

const fileOf = (stateDir: string, name: string): string => join(stateDir, FOLDER, `${encodeURIComponent(name)}.json`)

function isLogin(value: unknown): value is StoredLogin {
  if (!isObject(value) || !isObject(value['client']) || !isObject(value['tokens'])) return false
  const texts = [value['url'], value['loggedInAt'], value['authorizationServerUrl']]
  return [...texts, value['client']['client_id'], value['tokens']['access_token']].every(
    (text) => typeof text === 'string',
  )
}
