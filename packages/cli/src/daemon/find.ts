/** Finds the daemon: by BREAKFALL_URL, or by the `daemon.json` in the state folder. */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type DaemonAddress, DaemonClient, RECONNECT_POLICY } from '@breakfall/client'
import { Fault, isFault } from '@breakfall/faults'
import { isTakenByOthers } from '@breakfall/supervisor/platform'
import { DAEMON_HEADER } from '@breakfall/wire'
import { parseTokens } from '@breakfall/wire/node'
import type { ResolvedConfig } from '../config/resolve.ts'
import { cmd } from '../process/command-name.ts'
import { version } from '../process/self.ts'

export type FoundDaemon = {
  readonly address: DaemonAddress
  /** It belongs to a run, and ends when its work is done. */
  readonly untilIdle: boolean
  /** Undefined if it is on another machine, as far as this one knows. */
  readonly pid?: number | undefined
  /** It belongs to `breakfall demo`. */
  readonly isDemo?: boolean | undefined
}

export type DaemonPlace = Pick<ResolvedConfig, 'daemon' | 'stateDir'>

/** Undefined if no daemon answers. Another version or a rejected token is a fault. */
export async function findDaemon({ daemon, stateDir }: DaemonPlace): Promise<FoundDaemon | undefined> {
  if (daemon.kind === 'named') return namedDaemon(daemon.url, daemon.token)
  const file = readDaemonFile(stateDir)
  const found = file === undefined ? undefined : await healthAt(file.url)
  // Refused, or another program has the port by now: the file is stale.
  if (file === undefined || found === undefined || found === 'not a daemon') return undefined
  if (isTakenByOthers(file.url, fileIn(stateDir))) return undefined // it would get our token
  const { url, pid, tokenFile, untilIdle, isDemo } = file
  if (found.version !== version)
    throw otherVersion(url, found.version, `Restart it with this version: kill ${pid}, then run "${cmd('up')}".`)
  const token = readToken(tokenFile)
  const [named, naming] = [tokenFile, fileIn(stateDir)].map((path) => statSync(path, { throwIfNoEntry: false })?.uid)
  if (naming !== named && naming !== 0 && named === process.getuid?.()) throw notTheirs(naming, tokenFile, stateDir)
  return { address: { url, token, tokenSource: tokenFile }, untilIdle, pid, isDemo }
}

/** A client for one command: if the daemon does not answer, the command fails at once. */
export const oneShotClient = (address: DaemonAddress): DaemonClient =>
  new DaemonClient(address, { retryCalls: false, policy: RECONNECT_POLICY })

/** A client that follows events: a daemon that is restarted may be at another address. */
export function followingClient(place: DaemonPlace, { address }: FoundDaemon): DaemonClient {
  let latest = address
  const locate = async (): Promise<DaemonAddress> => {
    const found = await findDaemon(place).catch(() => undefined) // still away: the next attempt reports why
    return (latest = found?.address ?? latest)
  }
  return new DaemonClient(address, { locate, policy: RECONNECT_POLICY })
}

/** Throws if no daemon answers. `alternative` says what else the user can do. */
export async function requireDaemon(place: DaemonPlace, alternative?: string): Promise<FoundDaemon> {
  const found = await findDaemon(place)
  if (found !== undefined) return found
  const error = `No daemon is running for the state folder ${place.stateDir}. Start one with "${cmd('up')}".`
  throw new Fault('daemon_unreachable', { error: alternative === undefined ? error : `${error} ${alternative}` })
}

export function readToken(file: string): string {
  try {
    const grants = parseTokens(readFileSync(file, 'utf8'))
    const { token } = grants.find(({ isReadOnly }) => !isReadOnly) ?? grants[0] ?? { token: '' }
    if (/^[\x21-\x7e]*$/.test(token)) return token // anything else cannot be sent in a header
    throw new Fault('unauthorized', {
      error: `The daemon's token file ${file} is damaged. Remove it and restart the daemon.`,
    })
  } catch (cause) {
    if (isFault(cause)) throw cause
    throw new Fault('unauthorized', { error: `Cannot read the daemon's token file ${file}.`, cause })
  }
}

/** Sends no token: any program may be listening there. Undefined: the connection was refused. */
export async function healthAt(url: string): Promise<{ readonly version: string } | 'not a daemon' | undefined> {
  let response: Response
  try {
    response = await fetch(`${url}/v1/health`, { signal: AbortSignal.timeout(HEALTH_MS_MAX) })
  } catch (cause) {
    const isSilent = cause instanceof Error && cause.name === 'TimeoutError'
    if (!isSilent) return undefined
    throw new Fault('daemon_unreachable', {
      error: `The daemon at ${url} did not answer within ${HEALTH_MS_MAX / 1000} s and may hang. Stop it and start it again.`,
      next: 'never',
      cause,
    })
  }
  const isRefused = response.status === 401 || response.status === 403
  if (isRefused && response.headers.has(DAEMON_HEADER)) throw requestRefused(url, response.status)
  const notJson = (): undefined => undefined // another program's page
  const body: unknown = await response.json().catch(notJson)
  const isHealth = typeof body === 'object' && body !== null && 'version' in body && typeof body.version === 'string'
  return response.ok && isHealth && typeof body.version === 'string' ? { version: body.version } : 'not a daemon'
}

type DaemonFile = {
  readonly url: string
  readonly pid: number
  readonly tokenFile: string
  readonly untilIdle: boolean
  readonly isDemo: boolean
}

const fileIn = (stateDir: string): string => join(stateDir, 'daemon.json')

export function readDaemonFile(stateDir: string): DaemonFile | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(fileIn(stateDir), 'utf8'))
    if (typeof value !== 'object' || value === null) return undefined
    const { url, pid, tokenFile, untilIdle, demo }: Partial<Record<string, unknown>> = { ...value }
    if (typeof url !== 'string' || typeof pid !== 'number' || typeof tokenFile !== 'string') return undefined
    return { url, pid, tokenFile, untilIdle: untilIdle === true, isDemo: demo === true }
  } catch {
    return undefined // no daemon has run here, or its file is incomplete: either way there is none to find
  }
}

/** What a user reads when the daemon disappears while a turn is being followed. */
export const waitingForDaemon = (url: string): string =>
  `The daemon at ${url} stopped answering. Waiting up to a minute for it to come back; its turns are saved.`

/** Adds to `daemon_unreachable` how to continue the turn. Any other error is unchanged. */
export function withHowToContinue(thrown: unknown, sessionId: string): unknown {
  if (!isFault(thrown) || thrown.category !== 'daemon_unreachable') return thrown
  return thrown.with({
    message: {
      action: 'The turn is saved in the journal.',
      advice: `Restart the daemon with "${cmd('up')}", which resumes the turn, or resume it without one: ${cmd('run')} --session ${sessionId}`,
    },
  })
}

// ---- details, in the order they are used above ----

async function namedDaemon(url: string, token: string): Promise<FoundDaemon> {
  const found = await healthAt(url)
  if (found === undefined) throw new Fault('daemon_unreachable', { facts: { address: url } })
  if (found === 'not a daemon')
    throw new Fault('daemon_unreachable', {
      error: `The server at ${url} is not a Breakfall daemon. Check BREAKFALL_URL.`,
    })
  if (found.version !== version) throw otherVersion(url, found.version, 'Use the same version on both sides.')
  return { address: { url, token, tokenSource: 'BREAKFALL_TOKEN' }, untilIdle: false }
}

const HEALTH_MS_MAX = 5_000

/** The first word of any file of ours would go to their daemon. */
const notTheirs = (uid: number | undefined, tokenFile: string, stateDir: string): Fault =>
  new Fault('forbidden', {
    message: {
      happened: `The daemon.json in ${stateDir} belongs to another user (${uid}) and names a file of yours, ${tokenFile}, as its token.`,
      action: 'Nothing was sent.',
      advice: 'Choose your own folder with --state-dir.',
    },
  })

/** A refusal is an answer: the daemon is running. */
const requestRefused = (url: string, status: number): Fault =>
  new Fault('forbidden', {
    message: {
      happened: `The daemon at ${url} is running, but refuses requests under that name (HTTP ${status}).`,
      action: 'Nothing was sent to it.',
      advice: 'Call it at its own address, or restart it with --allow-host and that name.',
    },
  })

const otherVersion = (url: string, theirs: string, advice: string): Fault =>
  new Fault('invalid_request', {
    error: `The daemon at ${url} is version ${theirs}, this is version ${version}. ${advice}`,
  })
