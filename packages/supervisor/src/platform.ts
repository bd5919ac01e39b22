/**
 * What differs between operating systems: processes and their groups, signals, ports, open files, and where a user's files are. All
 * other code asks here, so a port to another system is this file; docs/platforms.md says what each answer is used for.
 *
 * I1  What a system does not show is undefined, empty or false, never a guess: callers then do less, or refuse.
 * I2  A process that we may not inspect looks as if it did not exist.
 */
import { execFile } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { endianness, userInfo } from 'node:os'
import { join } from 'node:path'
import { errorCode } from '@breakfall/faults/internal'

export { replaceFile, type Replacing } from './files.ts'

// ---- processes ----

/** Whether this system shows every process with its parent, its environment and its sockets. Without it only groups are known. */
export const HAS_PROCESS_TABLE = process.platform === 'linux'

export type ProcessEntry = {
  readonly pid: number
  readonly ppid: number
  readonly group: number
  readonly session: number
  readonly state: string
  /** In clock ticks since boot. Together with the pid it identifies one process. */
  readonly startTime: number
}

/** Also a zombie; see `isDead`. */
export function readProcess(pid: number): ProcessEntry | undefined {
  const fields = statusOf(pid)
  if (fields === undefined) return undefined
  const number = (index: number): number => Number(fields[index])
  return { pid, state: fields[0] ?? '', ppid: number(1), group: number(2), session: number(3), startTime: number(19) }
}

/** A zombie: it has exited, but its parent has not collected it. */
export const isDead = ({ state }: ProcessEntry): boolean => state === 'Z' || state === 'X'

/** Every process on the machine. Throws if there is no free descriptor to read with. */
export function processIds(): readonly number[] {
  if (!HAS_PROCESS_TABLE) return []
  return readdirSync('/proc').map(Number).filter(Number.isInteger)
}

/** Whether this variable is in the environment that the process was started with. */
export function hasVariable(pid: number, name: string, value: string): boolean {
  const environment = textOf(`/proc/${pid}/environ`)
  const entry = `${name}=${value}`
  return environment?.includes(entry) === true && environment.split('\0').includes(entry) // the first check is fast, and rarely true
}

/** Its program and arguments, for people. */
export const commandOf = (pid: number): string => (textOf(`/proc/${pid}/cmdline`) ?? '').replaceAll('\0', ' ').trim()

/** True too if the kernel does not say. */
export const hasChildren = (pid: number): boolean => textOf(`/proc/${pid}/task/${pid}/children`) !== ''

/** What the same user can change about a process from outside and its children would inherit. The kernel reveals all but ionice. */
export function settingsOf(pid: number): string {
  const fields = statusOf(pid)
  const cpus = /^Cpus_allowed:.*$/m.exec(textOf(`/proc/${pid}/status`) ?? '')?.[0]
  const others = ['oom_score_adj', 'limits', 'coredump_filter', 'timerslack_ns'].map((name) =>
    textOf(`/proc/${pid}/${name}`),
  )
  return [fields?.[16], fields?.[38], cpus, ...others].join('\n') // 16: nice, 38: scheduling policy
}

export type Usage = {
  readonly cpuMs: number
  readonly residentBytes: number
  readonly readBytes: number
  readonly majorFaults: number
}

/** Zeros if the process is gone. */
export function usageOf(pid: number): Usage {
  const fields = statusOf(pid)
  const number = (index: number): number => Number(fields?.[index] ?? 0)
  return {
    cpuMs: (number(11) + number(12)) * TICK_MS,
    majorFaults: number(9),
    residentBytes: number(21) * PAGE_BYTES,
    readBytes: Number(/^rchar: (\d+)$/m.exec(textOf(`/proc/${pid}/io`) ?? '')?.[1] ?? 0),
  }
}

/** The processes that see the same pids: in a sandbox, all of its processes. */
export function processesBeside(pid: number): readonly number[] {
  const namespace = linkOf(`/proc/${pid}/ns/pid`)
  return namespace === undefined ? [] : processIds().filter((each) => linkOf(`/proc/${each}/ns/pid`) === namespace)
}

// ---- signals ----

/** False if no process receives it. A negative target is a process group; signal 0 only asks whether there is one. */
export function sendSignal(target: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(target, signal)
    return true
  } catch (error) {
    return signal === 0 && errorCode(error) === 'EPERM' // it exists, but we may not signal it
  }
}

// ---- ports ----

/** `address`: its bytes in hexadecimal, 8 or 32 digits. `socket` identifies it among those of `socketsOf`. */
export type Listener = {
  readonly address: string
  readonly port: number
  readonly socket: string
  readonly uid: number
}

/** What listens in the network that this process sees. Undefined if that is unknown. */
export function listenersBeside(pid: number): readonly Listener[] | undefined {
  const tables = ['tcp', 'tcp6'].flatMap((name) => textOf(`/proc/${pid}/net/${name}`) ?? [])
  return tables.length === 0 ? undefined : tables.flatMap(parseListeners)
}

/**
 * Whether another user's program listens on the port that this file names: once our program is gone, any user can take its port. Root
 * and the owner of the file do not count as other users. False if the system does not tell.
 */
export function isTakenByOthers(url: string, file: string): boolean {
  const ours = [0, process.getuid?.(), statSync(file, { throwIfNoEntry: false })?.uid]
  const port = Number(new URL(url).port)
  return (listenersBeside(process.pid) ?? []).some((listener) => listener.port === port && !ours.includes(listener.uid))
}

/** The open sockets of a process. */
export function socketsOf(pid: number): readonly string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap(
      (fd) => /^socket:\[(\d+)\]$/.exec(linkOf(`/proc/${pid}/fd/${fd}`) ?? '')?.[1] ?? [],
    )
  } catch {
    return [] // gone, or not readable for us
  }
}

/** The process groups that listen on a port, for systems without a process table. Undefined if there is no program to ask. */
export async function groupsListeningOn(port: number): Promise<readonly number[] | undefined> {
  const output = await new Promise<string | undefined>((resolve) => {
    execFile('lsof', ['-nP', `-iTCP:${port}`, '-sTCP:LISTEN', '-Fg'], { timeout: 5_000 }, (error, stdout) => {
      resolve(errorCode(error) === 'ENOENT' ? undefined : stdout)
    })
  })
  return output === undefined ? undefined : Array.from(output.matchAll(/^g(\d+)$/gm), ([, group]) => Number(group))
}

/** The kernel's table of sockets. Pure. */
export function parseListeners(table: string): readonly Listener[] {
  return table.split('\n').flatMap((line) => {
    const [, local = '', , state, , , , uid, , socket] = line.trim().split(/\s+/)
    const [words = '', hexPort = ''] = local.split(':')
    const port = Number.parseInt(hexPort, 16)
    const isListener = state === LISTEN && socket !== undefined && port > 0
    return isListener ? [{ address: bytesOf(words), port, socket, uid: Number(uid) }] : []
  })
}

// ---- open files of this process ----

/** The folder that has each open file under the number of its descriptor: a path through it cannot be exchanged by others. */
export const DESCRIPTORS = '/proc/self/fd'

/** The present path of an open file. */
export const pathOfOpen = (fd: number): string | undefined => linkOf(`${DESCRIPTORS}/${fd}`)

/** The descriptors from 3 on that a child would get. Throws if this system does not show them. */
export function inheritedDescriptors(): readonly number[] {
  return readdirSync('/proc/self/fdinfo')
    .map(Number)
    .filter((fd) => {
      const flags = /^flags:\s+([0-7]+)/m.exec(textOf(`/proc/self/fdinfo/${fd}`) ?? '')?.[1] // the descriptor that listed them is gone
      return fd > 2 && flags !== undefined && (Number.parseInt(flags, 8) & O_CLOEXEC) === 0
    })
}

// ---- locks ----

export type FileLock = {
  /** False once the file was removed or replaced: then another process can have the lock of the new one. */
  isThere(): boolean
  release(): void
}

/**
 * Locks a file that only its owner can open, and creates it if it is missing. Undefined if another lock on it is held. Node has no
 * file locks, so an open transaction on an empty SQLite database is one. The kernel releases it when the process ends, however it ends.
 */
export function lockFile(file: string): FileLock | undefined {
  createPrivate(file)
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite') // not imported: most of our programs lock nothing
  const database = new DatabaseSync(file, { timeout: LOCK_MS })
  try {
    database.exec('PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE') // it writes nothing, so a full disk does not matter
  } catch (error) {
    database.close()
    if (isBusy(error)) return undefined
    throw error // no permission, no space, or it is not a database
  }
  const { dev, ino } = statSync(file)
  const isThere = (): boolean => {
    const now = statSync(file, { throwIfNoEntry: false })
    return now?.dev === dev && now.ino === ino
  }
  HELD.add(database)
  const release = (): void => {
    if (HELD.delete(database)) database.close()
  }
  return { isThere, release }
}

// ---- the machine ----

/** Changes when the machine reboots; nothing that ran before can still run then. */
export const bootId = (): string => textOf('/proc/sys/kernel/random/boot_id')?.trim() ?? 'unknown'

/** Processes with the same one see the same files. */
export const mountNamespace = (): string | undefined => linkOf('/proc/self/ns/mnt')

/** What is mounted where, as a process sees it, in the kernel's format. */
export const mountInfoOf = (pid: number): string | undefined => textOf(`/proc/${pid}/mountinfo`)
export const mountTable = (): string => textOf('/proc/self/mounts', 'utf8') ?? ''

/** The control groups of a process, in the kernel's format. */
export const controlGroupsOf = (pid: number | 'self'): string => textOf(`/proc/${pid}/cgroup`, 'utf8') ?? ''

/** Counts the out-of-memory kills of the whole machine. */
export const MACHINE_COUNTERS = '/proc/vmstat'

/** Ubuntu's rule against user namespaces of programs without a profile. */
export const restrictsUserNamespaces = (): boolean =>
  textOf('/proc/sys/kernel/apparmor_restrict_unprivileged_userns')?.trim() === '1'

/** If emulators (qemu, wine) are registered with the kernel, a foreign binary may run. */
export async function runsForeignBinaries(): Promise<boolean> {
  try {
    return (await readdir('/proc/sys/fs/binfmt_misc')).some((name) => name !== 'register' && name !== 'status')
  } catch {
    return false // not Linux, or not mounted: nothing is registered
  }
}

// ---- folders ----

/** What is in them belongs to the system, and each sandbox has its own. */
export const SYSTEM_FOLDERS: readonly string[] = ['/proc', '/sys', '/dev']

export type Environment = Readonly<Record<string, string | undefined>>

/** Ignores a relative HOME, which would make a clone's files count as the user's own. Undefined: the user has no home folder. */
export function homeFolder({ HOME = '' }: Environment): string | undefined {
  if (HOME.startsWith('/')) return HOME
  try {
    return userInfo().homedir
  } catch {
    return undefined // a user id without an account, as in containers
  }
}

/** The folder for the configuration or the state of programs. Undefined: the user has no home folder. */
export function userFolder(kind: keyof typeof USER_FOLDERS, environment: Environment): string | undefined {
  const [variable, ...fallback] = USER_FOLDERS[kind]
  const named = environment[variable] ?? ''
  if (named.startsWith('/')) return named // the XDG specification says to ignore relative paths
  const home = homeFolder(environment)
  return home === undefined ? undefined : join(home, ...fallback)
}

export const USER_FOLDERS = {
  config: ['XDG_CONFIG_HOME', '.config'],
  state: ['XDG_STATE_HOME', '.local', 'state'],
} as const

// ---- details ----

const HELD = new Set<object>() // the garbage collector would release a lock that nobody refers to
const SQLITE_BUSY = 5
const LOCK_MS = 500 // two that try in the same millisecond refuse each other; then one of them gets it
const TICK_MS = 10 // Linux reports CPU time in hundredths of a second
const PAGE_BYTES = 4_096 // larger on some machines: then memory looks as if it moved less
const LISTEN = '0A'
const O_CLOEXEC = 0o2_000_000

/** What SQLite reports if somebody else has the lock; its code is in the lowest byte. */
const isBusy = (error: unknown): boolean =>
  error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === SQLITE_BUSY

/** Never opens a file that is there: the kernel drops a process's locks on a file when it closes any descriptor of it. */
function createPrivate(file: string): void {
  try {
    closeSync(openSync(file, 'ax', 0o600))
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
  }
}

/** The fields of the process's status line from its state on; their numbers are those of proc(5), less three. */
function statusOf(pid: number): readonly string[] | undefined {
  const line = textOf(`/proc/${pid}/stat`)
  return line?.slice(line.lastIndexOf(')') + 2).split(' ') // the name is in parentheses and may contain anything, even those
}

/** The kernel writes an address as 32-bit words in the machine's byte order. */
function bytesOf(words: string): string {
  const bytes = Buffer.from(words, 'hex')
  return (endianness() === 'LE' && bytes.length % 4 === 0 ? bytes.swap32() : bytes).toString('hex')
}

function textOf(file: string, encoding: 'latin1' | 'utf8' = 'latin1'): string | undefined {
  try {
    return readFileSync(file, encoding)
  } catch {
    return undefined // I1, I2
  }
}

function linkOf(file: string): string | undefined {
  try {
    return readlinkSync(file)
  } catch {
    return undefined // I1, I2
  }
}
