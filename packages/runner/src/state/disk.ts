/** Small files that are never half written: written to a temporary file, synced, renamed. */
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs'
import { chmod, readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { errorCode } from '@breakfall/faults/internal'

/** All or nothing, even after a power cut. */
export function writeJsonDurably(file: string, value: unknown): void {
  const beside = `${file}.new`
  try {
    const fd = openSync(beside, 'w', 0o600)
    try {
      writeFully(fd, Buffer.from(JSON.stringify(value) + '\n'))
      fsyncSync(fd)
    } finally {
      closeSync(fd)
    }
    renameSync(beside, file)
  } catch (error) {
    rmSync(beside, { force: true })
    throw error
  }
  syncFolder(dirname(file))
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

export const syncFolder = (path: string): void => syncFile(path)

export function syncFile(path: string): void {
  const fd = openSync(path, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
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
