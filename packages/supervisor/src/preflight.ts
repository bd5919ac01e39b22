/**
 * Detects why a command cannot start before it is tried. The system's own errors mislead: a missing folder looks like a
 * missing command, and a binary for another architecture is passed to `sh`, which reports a syntax error.
 *
 * I1  Undefined only means "no reason found": the start itself may still fail, and `startFailure` reads that error.
 */
import { describeCause } from '@breakfall/faults'
import { errorCode, messageOf } from '@breakfall/faults/internal'
import { constants } from 'node:fs'
import { access, open, stat } from 'node:fs/promises'
import path from 'node:path'
import { runsForeignBinaries } from './platform.ts'

export const START_REASONS = [
  'not_found',
  'not_executable',
  'bad_interpreter',
  'wrong_architecture',
  'cwd_missing',
  'cwd_not_directory',
  'cwd_forbidden',
  'argument_too_long',
  'resources',
  'other',
] as const
export type StartReason = (typeof START_REASONS)[number]

/** `detail` is a clause for a person: `there is no folder /srv/app`. */
export type StartFailure = { readonly reason: StartReason; readonly detail: string }

export type Command = {
  readonly command: string
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
}

export async function preflight(given: Command): Promise<StartFailure | undefined> {
  const folder = await folderFailure(given.cwd)
  if (folder !== undefined) return folder
  const found = await locate(given)
  if ('reason' in found) return found
  return contentFailure(found.file, given)
}

/** Reads the error of the start itself, when `preflight` found no reason. */
export function startFailure(error: unknown, command: string): StartFailure {
  const code = errorCode(error) ?? ''
  switch (code) {
    case 'ENOENT':
      // The file itself was there a moment ago, so its interpreter or loader is missing.
      return { reason: 'bad_interpreter', detail: `the interpreter or loader of ${command} does not exist` }
    case 'EACCES':
    case 'EPERM':
      return { reason: 'not_executable', detail: `${command} is not executable` }
    case 'ENOEXEC':
      return { reason: 'wrong_architecture', detail: `${command} is built for another architecture or is damaged` }
    case 'E2BIG':
      return { reason: 'argument_too_long', detail: 'its arguments and environment are too long for this system' }
    default:
      if (RESOURCES.has(code)) {
        return { reason: 'resources', detail: `this machine cannot start another process now (${code})` }
      }
      return { reason: 'other', detail: messageOf(error) }
  }
}

/** The same for an error of the caller's `launch` hook. */
export function hookFailure(error: unknown): StartFailure {
  const isResources = RESOURCES.has(errorCode(error) ?? '')
  return { reason: isResources ? 'resources' : 'other', detail: describeCause(error) }
}

// ---- details, in the order they are used above ----

const RESOURCES: ReadonlySet<string> = new Set(['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE']) // a full machine frees up again

async function folderFailure(cwd: string): Promise<StartFailure | undefined> {
  try {
    if (!(await stat(cwd)).isDirectory()) return { reason: 'cwd_not_directory', detail: `${cwd} is not a folder` }
    await access(cwd, constants.X_OK)
    return undefined
  } catch (error) {
    const code = errorCode(error)
    if (code === 'EACCES') return { reason: 'cwd_forbidden', detail: `${cwd} cannot be entered: permission denied` }
    if (code === 'ENOTDIR') return { reason: 'cwd_not_directory', detail: `${cwd} is not a folder` }
    return { reason: 'cwd_missing', detail: `there is no folder ${cwd}` }
  }
}

async function locate({ command, cwd, env }: Command): Promise<{ readonly file: string } | StartFailure> {
  const isPath = command.includes('/')
  const places = isPath ? [path.resolve(cwd, command)] : pathOf(env).map((folder) => path.resolve(cwd, folder, command))
  let refused: string | undefined
  for (const file of places) {
    const seen = await checkFile(file)
    if (seen === 'runs') return { file }
    if (seen === 'refused') refused ??= file
  }
  if (refused !== undefined) return { reason: 'not_executable', detail: `${refused} is not executable` }
  const where = isPath ? `there is no file ${places[0]}` : `there is no program ${command} on the PATH`
  return { reason: 'not_found', detail: where }
}

const pathOf = (env: Command['env']): readonly string[] =>
  (env['PATH'] ?? '/usr/local/bin:/bin:/usr/bin').split(':').map((folder) => (folder === '' ? '.' : folder))

async function checkFile(file: string): Promise<'runs' | 'refused' | 'absent'> {
  try {
    if (!(await stat(file)).isFile()) return 'refused'
    await access(file, constants.X_OK)
    return 'runs'
  } catch (error) {
    const code = errorCode(error)
    return code === 'ENOENT' || code === 'ENOTDIR' ? 'absent' : 'refused'
  }
}

async function contentFailure(file: string, given: Command): Promise<StartFailure | undefined> {
  const head = await firstBytes(file)
  if (head === undefined) return undefined // I1: executable but not readable is allowed
  if (head.subarray(0, 2).toString('latin1') === '#!') return interpreterFailure(file, head, given)
  if (!isForeign(head) || (await runsForeignBinaries())) return undefined
  return { reason: 'wrong_architecture', detail: `${file} is built for another architecture or is damaged` }
}

async function firstBytes(file: string): Promise<Buffer | undefined> {
  try {
    await using handle = await open(file, 'r')
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(256), 0, 256, 0)
    return buffer.subarray(0, bytesRead)
  } catch {
    return undefined // we may not read it; the start itself will show
  }
}

async function interpreterFailure(file: string, head: Buffer, given: Command): Promise<StartFailure | undefined> {
  const first = head.toString('utf8').split('\n')[0] ?? ''
  const windows = first.endsWith('\r') ? ' (the file has Windows line endings)' : ''
  const [interpreter = '', ...rest] = first.slice(2).trim().split(/\s+/)
  const wanted =
    path.basename(interpreter) === 'env' ? rest.find((word) => !word.startsWith('-') && !word.includes('=')) : undefined
  const bad = (name: string): StartFailure => ({
    reason: 'bad_interpreter',
    detail: `${file} needs ${name === '' ? 'an interpreter' : name}, which does not exist${windows}`,
  })
  if (windows !== '') return bad(interpreter)
  if ((await checkFile(path.resolve(given.cwd, interpreter))) !== 'runs') return bad(interpreter)
  if (wanted === undefined) return undefined
  return 'reason' in (await locate({ ...given, command: wanted })) ? bad(wanted) : undefined
}

/** ELF machine numbers that run on the same kernel as Node of this architecture. */
const MACHINES: Readonly<Record<string, readonly number[]>> = {
  x64: [62, 3],
  ia32: [3],
  arm64: [183, 40],
  arm: [40],
  riscv64: [243],
  ppc64: [21, 20],
  s390x: [22],
  loong64: [258],
}

function isForeign(head: Buffer): boolean {
  const magic = head.subarray(0, 4).toString('latin1')
  if (magic === '\x7fELF') {
    if (process.platform !== 'linux' || head.length < 64) return true
    const isBig = head[5] === 2
    const word = (at: number): number => (isBig ? head.readUInt16BE(at) : head.readUInt16LE(at))
    const segments = word(head[4] === 2 ? 56 : 44) // with none, the kernel refuses to run it and `sh` would try
    return segments === 0 || MACHINES[process.arch]?.includes(word(18)) === false
  }
  const isMachO = ['\xcf\xfa\xed\xfe', '\xce\xfa\xed\xfe', '\xca\xfe\xba\xbe', '\xfe\xed\xfa\xcf'].includes(magic)
  if (isMachO) return process.platform !== 'darwin'
  return magic.startsWith('MZ') && head.includes(0)
}
