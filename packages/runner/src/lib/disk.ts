/** The runner's files and folders: JSON that is never half written, whole writes, and trees that a command made. */
import { mkdirSync, readFileSync, writeSync } from 'node:fs'
import { chmod, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode } from '@breakfall/faults/internal'
import { replaceFile } from '@breakfall/supervisor/platform'

/** All or nothing, even after a power cut. */
export function writeJsonDurably(file: string, value: unknown): void {
  replaceFile(file, `${JSON.stringify(value)}\n`, { isDurable: true })
}

/** Undefined if there is no file; throws if it cannot be read or parsed. */
export function readJsonFile(file: string): unknown {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
  return JSON.parse(text)
}

export function makeFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 })
}

/** The kernel may write less than it was given without reporting an error. */
export function writeFully(fd: number, bytes: Uint8Array, position: number | null = null): void {
  let done = 0
  while (done < bytes.length) {
    done += writeSync(fd, bytes, done, bytes.length - done, position === null ? null : position + done)
  }
}

/** Removes a tree, even if a command removed its own permissions in it. */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 3 })
  } catch {
    // rm fails at a folder that it cannot enter; after a chmod it can.
    await makeAccessible(path)
    await rm(path, { recursive: true, force: true, maxRetries: 3 })
  }
}

async function makeAccessible(folder: string): Promise<void> {
  await chmod(folder, 0o700)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) await makeAccessible(join(folder, entry.name))
  }
}
