/**
 * Reads a project's instructions: AGENTS.md of the workspace and of each folder above it, up to the root of the repository; the
 * same with CLAUDE.md if there is no AGENTS.md. Outside a repository only the workspace itself is looked at.
 *
 * I1  Only regular text files that are in the repository when they are open: a link may lead to a Markdown file of the
 *     repository, and nowhere else.
 * I2  Bounded: a file that is too large is refused before it is read, and what is sent of all files together has a limit.
 * I3  A file that is not sent is named, with the reason.
 */
import { createHash } from 'node:crypto'
import { closeSync, constants, existsSync, fstatSync, lstatSync, openSync, readSync, realpathSync } from 'node:fs'
import { basename, dirname, join, relative, sep } from 'node:path'
import type { InstructionsFile } from '@breakfall/wire'
import { pathOfOpen } from '@breakfall/supervisor/platform'
import type { ProjectText } from './system-prompt.ts'

export const PROJECT_LIMITS = {
  sentBytesMax: 32 * 1024, // of all files together: about 8,000 tokens in every request
  fileBytesMax: 1024 * 1024, // a larger file is no instructions
  foldersMax: 64,
} as const

export type ProjectFiles = {
  readonly files: readonly InstructionsFile[]
  readonly texts: readonly ProjectText[]
}

export function readProjectFiles(workspace: string): ProjectFiles {
  const found = foldersUp(workspace)
  if (found === undefined) return { files: [], texts: [] }
  const { root, folders } = found
  for (const name of ['AGENTS.md', 'CLAUDE.md']) {
    const paths = folders.map((folder) => join(folder, name)).filter(isThere)
    if (paths.length > 0) return readAll(paths, workspaceOf(folders), root)
  }
  return { files: [], texts: [] }
}

// ---- details, in the order they are used above ----

type Folders = { readonly root: string; readonly folders: readonly string[] }

/** From the workspace to the root of its repository. */
function foldersUp(workspace: string): Folders | undefined {
  let start: string
  try {
    start = realpathSync(workspace)
  } catch {
    return undefined // the first tool call reports that the folder is gone
  }
  const folders: string[] = []
  for (let folder = start; folders.length < PROJECT_LIMITS.foldersMax; folder = dirname(folder)) {
    folders.push(folder)
    if (existsSync(join(folder, '.git'))) return { root: folder, folders }
    if (folder === dirname(folder)) break
  }
  return { root: start, folders: [start] } // no repository
}

const workspaceOf = ([first = '/']: readonly string[]): string => first

function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined
  } catch {
    return false // the folder is not readable
  }
}

function readAll(paths: readonly string[], workspace: string, root: string): ProjectFiles {
  const files: InstructionsFile[] = []
  const texts: ProjectText[] = []
  let room: number = PROJECT_LIMITS.sentBytesMax
  for (const file of paths) {
    const path = relative(workspace, file)
    const read = readOne(file, root)
    if ('refused' in read) {
      files.push({ path, bytes: read.bytes, sentBytes: 0, refused: read.refused }) // I3
      continue
    }
    const sent = cutAtLine(read.content, room)
    room -= sent.length
    const sha256 = createHash('sha256').update(read.content).digest('hex')
    files.push({ path, bytes: read.content.length, sha256, sentBytes: sent.length })
    const isCut = sent.length < read.content.length
    const note = `\n[${path} is cut here: ${sent.length} of ${read.content.length} bytes. Read the file if you need the rest.]`
    texts.push({ path, text: sent.toString('utf8').trimEnd() + (isCut ? note : '') })
  }
  return { files, texts }
}

type Read = { readonly content: Buffer } | { readonly refused: string; readonly bytes: number }

function readOne(file: string, root: string): Read {
  let fd: number
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK) // opening a pipe would block
  } catch (error) {
    return { refused: unreadable(error), bytes: 0 }
  }
  try {
    const stat = fstatSync(fd)
    const refused = whyNot(pathOfOpen(fd) ?? realpathSync(file), file, root, stat) // I1: no one can replace the open file
    if (refused !== undefined) return { refused, bytes: stat.isFile() ? stat.size : 0 }
    const content = readUpTo(fd, PROJECT_LIMITS.fileBytesMax)
    return isText(content) ? { content } : { refused: 'is not text in UTF-8', bytes: stat.size }
  } catch (error) {
    return { refused: unreadable(error), bytes: 0 }
  } finally {
    closeSync(fd)
  }
}

const unreadable = (error: unknown): string =>
  `cannot be read (${error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'})`

function whyNot(
  real: string,
  file: string,
  root: string,
  stat: { isFile(): boolean; readonly size: number },
): string | undefined {
  if (!stat.isFile()) return 'is not a file'
  if (!real.startsWith(root.endsWith(sep) ? root : root + sep)) return 'is a link that leads out of the repository'
  if (real !== file && !basename(real).endsWith('.md')) return 'is a link to a file that is not Markdown'
  if (stat.size > PROJECT_LIMITS.fileBytesMax) return `is larger than ${PROJECT_LIMITS.fileBytesMax / 1024} KiB` // I2
  return undefined
}

function readUpTo(fd: number, bytesMax: number): Buffer {
  const bytes = Buffer.alloc(bytesMax)
  let length = 0
  for (let read = -1; read !== 0 && length < bytes.length; length += read)
    read = readSync(fd, bytes, { offset: length })
  return bytes.subarray(0, length)
}

function isText(content: Buffer): boolean {
  try {
    return !new TextDecoder('utf-8', { fatal: true }).decode(content).includes('\0')
  } catch {
    return false // bytes that are not UTF-8
  }
}

/** Whole lines that fit; part of a line if the first one does not. */
function cutAtLine(content: Buffer, bytesMax: number): Buffer {
  if (content.length <= bytesMax) return content
  const end = content.lastIndexOf('\n', bytesMax - 1)
  if (end > 0) return content.subarray(0, end + 1)
  let cut = bytesMax
  while (cut > 0 && ((content[cut] ?? 0) & 0xc0) === 0x80) cut-- // not in the middle of a character
  return content.subarray(0, cut)
}
