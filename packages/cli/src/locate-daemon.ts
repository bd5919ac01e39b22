/** Finds the daemon that `daemon.json` in the state folder names, if it answers. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Fault, isFault } from '@breakfall/faults'
import { DaemonClient } from './daemon-client.ts'
import type { JournalClient } from './journal-client.ts'
import { version } from './version.ts'

export type DaemonFile = {
  readonly url: string
  readonly pid: number
  readonly tokenFile: string
  readonly version?: string
}

type Env = Readonly<Record<string, string | undefined>>

/** A client of the running daemon, or undefined where there is none. Another version or a wrong token is a fault of its own. */
export async function findDaemon(stateDir: string, env: Env): Promise<DaemonClient | undefined> {
  const named = env['BREAKFALL_URL'] ?? ''
  if (named !== '') return new DaemonClient({ url: daemonUrl(named), token: env['BREAKFALL_TOKEN'] ?? '' })
  const file = readDaemonFile(stateDir)
  if (file === undefined) return undefined
  const client = new DaemonClient({ url: file.url, token: readToken(file.tokenFile) })
  try {
    const health = await client.health()
    if (health.version !== undefined && health.version !== version) {
      throw new Fault('invalid_request', {
        error: `the daemon at ${file.url} is version ${health.version}, this is ${version}; restart it with this version: kill ${file.pid} and run "breakfall up"`,
      })
    }
    return client
  } catch (error) {
    if (isFault(error) && error.category === 'daemon_unreachable') return undefined // a stale file: whoever wrote it is gone
    throw error
  }
}

function daemonUrl(named: string): string {
  if (!/^https?:\/\/[^\s/]+\/?$/.test(named) || !URL.canParse(named))
    throw new Fault('invalid_request', {
      error: `BREAKFALL_URL must be a daemon's address such as http://127.0.0.1:4711, got ${named}`,
    })
  return named.replace(/\/$/, '')
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
  const [{ readJournal }, { JournalClient }] = await Promise.all([
    import('@breakfall/daemon'),
    import('./journal-client.ts'),
  ])
  return { viewer: new JournalClient(readJournal(stateDir, modelName)), isOffline: true }
}

export function readToken(file: string): string {
  try {
    return readFileSync(file, 'utf8').split(/\s/)[0] ?? ''
  } catch (cause) {
    throw new Fault('unauthorized', { error: `the daemon's token file ${file} cannot be read`, cause })
  }
}

function readDaemonFile(stateDir: string): DaemonFile | undefined {
  try {
    const value = JSON.parse(readFileSync(join(stateDir, 'daemon.json'), 'utf8')) as Partial<DaemonFile>
    const { url, pid, tokenFile } = value
    if (typeof url !== 'string' || typeof pid !== 'number' || typeof tokenFile !== 'string') return undefined
    return { url, pid, tokenFile, ...(value.version === undefined ? {} : { version: value.version }) }
  } catch {
    return undefined // no daemon has run here, or its file was cut short: both mean that there is none to find
  }
}
