/** Finds the daemon that `daemon.json` in the state folder names, if it answers. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Fault, isFault } from '@breakfall/faults'
import { DaemonClient } from './client.ts'
import type { JournalClient } from '../sessions/offline.ts'
import { refuseUnreadable } from '../process/start-errors.ts'
import { version } from '../process/version.ts'

export type DaemonFile = {
  readonly url: string
  readonly pid: number
  readonly tokenFile: string
  readonly version?: string
  readonly untilIdle?: boolean
}

type Env = Readonly<Record<string, string | undefined>>

/** A client of the running daemon, or undefined where there is none. Another version or a wrong token is a fault of its own. */
export async function findDaemon(stateDir: string, env: Env): Promise<DaemonClient | undefined> {
  const named = env['BREAKFALL_URL'] ?? ''
  if (named !== '') return namedDaemon(daemonUrl(named), env)
  const file = readDaemonFile(stateDir)
  const found = file === undefined ? undefined : await healthAt(file.url)
  // Refused, or answered by somebody else who has that port now: a stale file, whoever wrote it is gone.
  if (file === undefined || found === undefined || found === 'a stranger') return undefined
  if (found.version !== version)
    throw otherVersion(file.url, found.version, `restart it with this version: kill ${file.pid} and run "breakfall up"`)
  const { url, tokenFile, untilIdle } = file
  return new DaemonClient({ url, token: readToken(tokenFile), tokenFrom: tokenFile, untilIdle })
}

async function namedDaemon(url: string, env: Env): Promise<DaemonClient> {
  const found = await healthAt(url)
  if (found === undefined) throw new Fault('daemon_unreachable', { facts: { address: url } })
  if (found === 'a stranger')
    throw new Fault('daemon_unreachable', { error: `what answers at ${url} is not a daemon; check BREAKFALL_URL` })
  if (found.version !== version) throw otherVersion(url, found.version, 'use the same version on both sides')
  return new DaemonClient({ url, token: env['BREAKFALL_TOKEN'] ?? '', tokenFrom: 'BREAKFALL_TOKEN' })
}

const HEALTH_MS_MAX = 5_000

/** Who is there: a daemon, somebody else, or nobody. Asked without the token, since it may be anybody. */
async function healthAt(url: string): Promise<{ readonly version: string } | 'a stranger' | undefined> {
  let response: Response
  try {
    response = await fetch(`${url}/v1/health`, { signal: AbortSignal.timeout(HEALTH_MS_MAX) })
  } catch (cause) {
    const isSilent = cause instanceof Error && cause.name === 'TimeoutError'
    if (!isSilent) return undefined
    throw new Fault('daemon_unreachable', {
      error: `the daemon at ${url} does not answer within ${HEALTH_MS_MAX / 1000} s; it may hang: stop it and start it again`,
      next: 'never',
      cause,
    })
  }
  const noJson = (): undefined => undefined // a page, say: somebody else's
  const body = (await response.json().catch(noJson)) as { status?: unknown; version?: unknown } | undefined
  return response.ok && typeof body?.version === 'string' ? { version: body.version } : 'a stranger'
}

const otherVersion = (url: string, theirs: string, advice: string): Fault =>
  new Fault('invalid_request', { error: `the daemon at ${url} is version ${theirs}, this is ${version}; ${advice}` })

function daemonUrl(named: string): string {
  if (!/^https?:\/\/[^\s/]+\/?$/.test(named) || !URL.canParse(named))
    throw new Fault('invalid_request', {
      error: `BREAKFALL_URL must be a daemon's address such as http://127.0.0.1:4711, got ${named}`,
    })
  return named.replace(/\/$/, '')
}

/** The same, looked for again where it is lost: one that is started again may be elsewhere. */
export function looking(client: DaemonClient, stateDir: string, env: Env): DaemonClient {
  let { address } = client
  return new DaemonClient(address, async () => {
    const found = await findDaemon(stateDir, env).catch(() => undefined) // still away: whoever asks tries again, and says why
    return (address = found?.address ?? address)
  })
}

/** `without` says what can be done where there is none. */
export async function needDaemon(stateDir: string, env: Env, without?: string): Promise<DaemonClient> {
  const client = await findDaemon(stateDir, env)
  if (client !== undefined) return client
  const error = `no daemon answers for the state folder ${stateDir}; start one with "breakfall up"`
  throw new Fault('daemon_unreachable', { error: without === undefined ? error : `${error}. ${without}` })
}

/** Where sessions can be looked at: the daemon, or the journal on disk where none answers. */
export async function findViewer(
  stateDir: string,
  env: Env,
  modelName: string,
): Promise<{ viewer: DaemonClient } | { viewer: JournalClient; isOffline: true }> {
  const viewer = await findDaemon(stateDir, env)
  if (viewer !== undefined) return { viewer }
  refuseUnreadable(stateDir) // else it would look as if there were no sessions
  const [{ readJournal }, { JournalClient }] = await Promise.all([
    import('@breakfall/daemon'),
    import('../sessions/offline.ts'),
  ])
  return { viewer: new JournalClient(readJournal(stateDir, modelName)), isOffline: true }
}

export function readToken(file: string): string {
  try {
    const [token = ''] = readFileSync(file, 'utf8').split(/\s/)
    if (/^[\x21-\x7e]*$/.test(token)) return token // anything else cannot be sent in a header
    throw new Fault('unauthorized', {
      error: `the daemon's token file ${file} is damaged; remove it and restart the daemon`,
    })
  } catch (cause) {
    if (isFault(cause)) throw cause
    throw new Fault('unauthorized', { error: `the daemon's token file ${file} cannot be read`, cause })
  }
}

function readDaemonFile(stateDir: string): DaemonFile | undefined {
  try {
    const value = JSON.parse(readFileSync(join(stateDir, 'daemon.json'), 'utf8')) as Partial<DaemonFile>
    const { url, pid, tokenFile } = value
    if (typeof url !== 'string' || typeof pid !== 'number' || typeof tokenFile !== 'string') return undefined
    return { ...value, url, pid, tokenFile, untilIdle: value.untilIdle === true }
  } catch {
    return undefined // no daemon has run here, or its file was cut short: both mean that there is none to find
  }
}
