/**
 * `breakfall mcp login` and `logout`: an OAuth login to a server, stored for the daemon, which refreshes it.
 *
 * I1  Only this command starts a login. A turn that needs one waits and names this command.
 * I2  A logout deletes the tokens here first. Whether the authorization server revokes them changes nothing about that.
 */
import { createInterface } from 'node:readline'
import { Fault } from '@breakfall/faults'
import type { McpServerConfig, Revocation } from '@breakfall/mcp'
import { readLogin, removeLogin, writeLogin } from '@breakfall/mcp/logins'
import type { Context } from '../../command-line/context.ts'
import { openBrowser } from '../../console/open.ts'
import { findDaemon, oneShotClient } from '../../daemon/find.ts'
import { configOf, withServer } from './without-daemon.ts'

export type LoginOptions = {
  readonly clientId?: string
  readonly clientSecretEnv?: string
  readonly print?: boolean
}

const LOGIN_MS = 15 * 60_000 // a person looks for a password, and perhaps for a phone

export async function mcpLogin({ config, out }: Context, name: string, options: LoginOptions): Promise<void> {
  const { stateDir, outside, childEnv } = config
  const server = serverAt(outside.mcp, name)
  const { logIn } = await import('@breakfall/mcp')
  const { clientSecretEnv: variable } = options
  const clientSecret = variable === undefined ? undefined : process.env[variable]
  if (variable !== undefined && (clientSecret ?? '') === '')
    throw new Fault('invalid_request', { error: `--client-secret-env names ${variable}, which is not set` })
  using pasted = pastedLine()
  const login = await logIn({
    name,
    url: server.url,
    clientId: options.clientId,
    clientSecret,
    before: readLogin(stateDir, name, server.url),
    signal: AbortSignal.timeout(LOGIN_MS),
    pasted: pasted.line,
    onPage: (page) => {
      if (out.json) out.data({ event: 'login', url: page.href })
      out.say(`to log in at ${name}, open this page in your browser:\n${page.href}`)
      if (pasted.line !== undefined)
        out.say('if the browser runs on another computer, paste the address here that it ends at')
      if (options.print !== true) void openBrowser(page.href, childEnv)
    },
  })
  const file = writeLogin(stateDir, name, login)
  if (hasAuthorization(server))
    out.say(`headersEnv of [mcp.${name}] sets Authorization and comes first; remove it there`)
  const state = await refreshedState(config, name)
  if (out.json) out.result({ server: name, file, state })
  else out.line(`logged in at ${name}, which is ${state}; the tokens are in ${file}`)
}

export async function mcpLogout({ config, out }: Context, name: string): Promise<void> {
  const { url } = serverAt(config.outside.mcp, name)
  const login = readLogin(config.stateDir, name, url)
  if (!removeLogin(config.stateDir, name)) throw new Fault('not_found', { error: `There is no login at ${name}` }) // I2
  const daemon = await findDaemon(config)
  if (daemon !== undefined) await oneShotClient(daemon.address).restartMcp(name)
  const { revokeLogin } = await import('@breakfall/mcp')
  const revocation: Revocation = login === undefined ? { kind: 'not_offered' } : await revokeLogin(login)
  if (out.json) return out.result({ server: name, revocation })
  out.line(`forgot the login at ${name}${revocation.kind === 'revoked' ? ', and its server revoked the tokens' : ''}`)
  const left = notRevoked(revocation)
  if (left !== undefined) out.say(left)
}

// ---- details ----

/** What a person should know about tokens that are still valid. */
function notRevoked(revocation: Revocation): string | undefined {
  if (revocation.kind === 'revoked') return undefined
  const why =
    revocation.kind === 'failed'
      ? `could not be revoked: ${revocation.why}`
      : 'were not revoked: the authorization server offers no way to'
  return `the tokens ${why}. They are deleted here and stay valid until they expire; to end them now, remove Breakfall's access in your account there`
}

function serverAt(
  servers: Readonly<Record<string, McpServerConfig>>,
  name: string,
): McpServerConfig & { readonly url: string } {
  const server = configOf(servers, name)
  const { url } = server
  if (url === undefined)
    throw new Fault('invalid_request', { error: `${name} is a command, and only servers at a URL ask for a login` })
  return { ...server, url }
}

const hasAuthorization = ({ headers = {} }: McpServerConfig): boolean =>
  Object.keys(headers).some((header) => header.toLowerCase() === 'authorization')

/** The daemon reconnects with the new login. Without a daemon, this command tries it. */
async function refreshedState(config: Context['config'], name: string): Promise<string> {
  const daemon = await findDaemon(config)
  if (daemon !== undefined) return (await oneShotClient(daemon.address).restartMcp(name)).state
  return withServer(config, name, (server) => {
    const { state, error } = server.status
    return Promise.resolve(error === undefined ? state : `${state}: ${error}`)
  })
}

/** What the user pastes, if there is a terminal. */
function pastedLine(): Disposable & { readonly line: Promise<string> | undefined } {
  if (process.stdin.isTTY !== true) return { line: undefined, [Symbol.dispose]: () => undefined }
  const lines = createInterface({ input: process.stdin })
  const line = new Promise<string>((resolve) => lines.once('line', resolve))
  return { line, [Symbol.dispose]: () => lines.close() }
}
