/**
 * How git and find run for checkpoints. They read files that a box wrote, so:
 *
 * I1  In a sandbox wherever there is one: the workspace is read-only, only the store is writable, there is no network.
 * I2  Only the store's own configuration counts. No hooks, filters, monitors, submodules or user settings.
 * I3  If the folder is not the one the box was created on, nothing runs.
 */
import { spawn } from 'node:child_process'
import { Fault } from '@breakfall/faults'
import type { HostLayout } from '../isolation/host-layout.ts'

export type CommandPlace = {
  /** Null: no sandbox on this machine, or the box has none. */
  readonly bwrap: string | null
  readonly layout: Pick<HostLayout, 'folders' | 'links'>
  readonly store: string
  readonly workspace: string
  /** `stat -c %d:%i` of the workspace. */
  readonly numbers: string
  readonly isRoot: boolean
  readonly uid: number
  readonly gid: number
}

export type CommandOptions = {
  readonly input?: Buffer | undefined
  readonly signal: AbortSignal
  /** The repository of the workspace also provides objects. */
  readonly isSeeded?: boolean | undefined
  /** An exit code other than 0 that is fine. */
  readonly accepts?: number | undefined
}

/** Runs a program; resolves with what it printed. */
export function runInPlace(place: CommandPlace, command: readonly string[], options: CommandOptions): Promise<Buffer> {
  const [program = '', ...args] = wordsFor(place, command, options.isSeeded ?? false)
  return new Promise((resolve, reject) => {
    options.signal.throwIfAborted()
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], env: {}, cwd: '/' })
    const out: Buffer[] = []
    let [size, errors] = [0, '']
    const stop = (): void => void child.kill('SIGKILL')
    options.signal.addEventListener('abort', stop)
    child.stdout.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > OUTPUT_BYTES_MAX) stop()
      else out.push(chunk)
    })
    child.stderr.on('data', (chunk: Buffer) => {
      if (errors.length < ERROR_CHARS_MAX) errors += chunk.toString('utf8')
    })
    child.stdin.on('error', () => undefined) // it ended before it read everything: its exit code says why
    child.on('error', (error) => {
      options.signal.removeEventListener('abort', stop)
      reject(error)
    })
    child.on('close', (code, killedBy) => {
      options.signal.removeEventListener('abort', stop)
      if (options.signal.aborted) reject(options.signal.reason as Error)
      else if (code === 0 || (code !== null && code === options.accepts)) resolve(Buffer.concat(out))
      else if (code === OTHER_FOLDER) reject(otherFolder(place.workspace))
      else reject(new GitError(command, code ?? killedBy, size > OUTPUT_BYTES_MAX ? 'too much output' : errors.trim()))
    })
    child.stdin.end(options.input)
  })
}

export class GitError extends Error {
  /** A file was removed, or made shorter, while git read it. */
  readonly isMoving: boolean

  constructor(command: readonly string[], code: number | NodeJS.Signals | null, errors: string) {
    super(`${command.slice(0, 2).join(' ')} failed (${code ?? 'killed'}): ${errors.slice(0, 500)}`)
    this.isMoving = code === 'SIGBUS' || code === SANDBOXED_SIGBUS || MOVING.test(errors)
  }
}

// ---- details ----

const OUTPUT_BYTES_MAX = 512 * 1024 * 1024
const ERROR_CHARS_MAX = 4_096
const OTHER_FOLDER = 125
const SANDBOXED_SIGBUS = 135 // git maps files, and the signal comes when a mapped file is cut
const MOVING = /: No such file or directory|: Not a directory|while indexing|unstable object source/
const [WORKSPACE, STORE] = ['/workspace', '/store']

function wordsFor(place: CommandPlace, command: readonly string[], isSeeded: boolean): readonly string[] {
  const { bwrap, store, workspace, numbers } = place
  const [tree, folder] = bwrap === null ? [workspace, store] : [WORKSPACE, STORE]
  const environment = Object.entries(environmentFor(folder, tree, isSeeded)).map(([name, value]) => `${name}=${value}`)
  const entry = ['/usr/bin/env', '-i', ...environment, '/bin/sh', '-c', ENTRY, 'sh', tree, numbers, ...command]
  return ['nice', '-n', '10', ...(bwrap === null ? [] : [bwrap, ...sandboxFor(place), '--']), ...entry]
}

/** I3 */
const ENTRY = `cd -- "$1" && [ "$(stat -c %d:%i .)" = "$2" ] || exit ${OTHER_FOLDER}
shift 2
exec "$@"`

/** I2 */
const environmentFor = (store: string, workspace: string, isSeeded: boolean): Readonly<Record<string, string>> => ({
  PATH: '/usr/local/bin:/usr/bin:/bin',
  HOME: '/nonexistent',
  LC_ALL: 'C',
  GIT_DIR: store,
  GIT_WORK_TREE: workspace,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_ATTR_NOSYSTEM: '1',
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_LITERAL_PATHSPECS: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_NO_LAZY_FETCH: '1',
  ...(isSeeded ? { GIT_ALTERNATE_OBJECT_DIRECTORIES: `${workspace}/.git/objects` } : {}),
})

/** I1. Root keeps the right to read files of other owners, and no other. */
function sandboxFor({ layout, store, workspace, isRoot, uid, gid }: CommandPlace): readonly string[] {
  return [
    ...(isRoot ? [] : ['--unshare-user', '--uid', String(uid), '--gid', String(gid)]),
    '--unshare-pid',
    '--unshare-ipc',
    '--unshare-uts',
    '--unshare-net',
    '--unshare-cgroup-try',
    '--die-with-parent',
    '--new-session',
    '--cap-drop',
    'ALL',
    ...(isRoot ? ['--cap-add', 'CAP_DAC_READ_SEARCH'] : []),
    ...layout.folders.flatMap((path) => ['--ro-bind', path, path]),
    ...[...layout.links].flatMap(([at, target]) => ['--symlink', target, at]),
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    '--tmpfs',
    '/tmp',
    '--ro-bind',
    workspace,
    WORKSPACE,
    '--bind',
    store,
    STORE,
    '--remount-ro',
    '/',
  ]
}

const otherFolder = (workspace: string): Fault =>
  new Fault('file_not_found', {
    error: `The workspace ${workspace} is gone, or is another folder now. Create a new box for the folder that is there now.`,
    errorRaw: `workspace ${workspace} has another inode`,
  })
