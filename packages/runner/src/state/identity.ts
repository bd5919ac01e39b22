/** The runner's identity: one id per state folder, one per process. Also makes sure that it is alone in its folder. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'
import { ID_PATTERN } from '@breakfall/wire/internal'
import { makeFolder, readJsonFile, writeJsonDurably } from './disk.ts'
import { isObject, parseObject } from './json.ts'
import { newId } from '@breakfall/wire/node'

export type Identity = { readonly runnerId: string; readonly bootId: string; readonly version: string }

/** The id of the runner of this folder, before it starts. */
export function runnerIdIn(stateDir: string): string {
  makeFolder(stateDir)
  return readIdentity(stateDir).runnerId
}

/** Created if missing. A damaged id is not replaced: that would orphan what still runs under the old one. */
export function readIdentity(stateDir: string): Identity {
  const file = join(stateDir, 'identity.json')
  const runnerId = knownId(file) ?? newId()
  if (!existsSync(file)) writeJsonDurably(file, { runnerId })
  return { runnerId, bootId: newId(), version: version() }
}

function knownId(file: string): string | undefined {
  let cause: unknown
  try {
    const known = readJsonFile(file)
    if (known === undefined) return undefined
    const { runnerId } = isObject(known) ? known : {}
    if (typeof runnerId === 'string' && ID_PATTERN.test(runnerId)) return runnerId
  } catch (error) {
    cause = error
  }
  throw new Fault('journal_corrupt', {
    boundary: 'runner',
    cause,
    error: `${file} is damaged, and it holds this runner's id. Restore it from a backup, or delete it to start as a new runner; execs of the old one are lost then.`,
  })
}

/** Lets daemons find a runner by its state folder. */
export type RunnerFile = {
  readonly url: string
  readonly runnerId: string
  readonly pid: number
  readonly startTime: number | undefined
  readonly bootId: string
  readonly version: string
}

export function announce(stateDir: string, file: RunnerFile): void {
  writeJsonDurably(join(stateDir, 'runner.json'), file)
}

export function withdraw(stateDir: string): void {
  rmSync(join(stateDir, 'runner.json'), { force: true, recursive: true })
}

/**
 * Two runners in one folder would read each other's pipes. The lock is an abstract socket: the kernel releases it when the
 * process ends in any way, and it leaves no file behind.
 */
export async function lockFolder(stateDir: string): Promise<{ release(): Promise<void> }> {
  const name = `\0breakfall-runner-${createHash('sha256').update(realpathSync(stateDir)).digest('hex').slice(0, 32)}`
  const server: Server = createServer((socket) => socket.destroy())
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      reject(
        cause.code === 'EADDRINUSE'
          ? new Fault('invalid_request', {
              cause,
              error: `another runner is using ${stateDir}. Use that one (its address is in runner.json), or choose another state folder.`,
            })
          : cause,
      )
    })
    server.listen({ path: name }, resolve)
  })
  server.unref()
  return { release: () => new Promise((resolve) => void server.close(() => resolve())) }
}

function version(): string {
  const file = new URL('../../package.json', import.meta.url)
  return String(parseObject(readFileSync(file, 'utf8'))['version'])
}
