/** A file of lines that only grows, each synced to disk before anyone acts on it. An incomplete last line was never acknowledged. */
import { closeSync, fdatasync, fdatasyncSync, ftruncateSync, openSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { errorCode } from '@breakfall/faults/internal'
import { writeFully } from './disk.ts'

const sync = promisify(fdatasync)

export class SyncedLines {
  readonly #file: string
  #fd: number | undefined
  #size = 0
  #syncs = 0
  /** Closed while the disk was writing: its number must not be reused before that is over. */
  readonly #retired: number[] = []

  constructor(file: string) {
    this.#file = file
  }

  read(): readonly string[] {
    let text: string
    try {
      text = readFileSync(this.#file, 'utf8')
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return []
      throw error
    }
    return text.split('\n').slice(0, -1)
  }

  /** Resolves when the line is on disk. */
  async add(line: string): Promise<void> {
    const fd = this.#write(line)
    this.#syncs += 1
    try {
      await sync(fd)
    } finally {
      this.#syncs -= 1
      if (this.#syncs === 0) for (const old of this.#retired.splice(0)) closeSync(old)
    }
  }

  /** Returns when the line is on disk, before anything else can happen in this process. */
  addNow(line: string): void {
    const fd = this.#write(line)
    try {
      fdatasyncSync(fd)
    } catch (error) {
      this.#size -= Buffer.byteLength(line) + 1
      ftruncateSync(fd, this.#size) // the caller was refused, so a later process must not find the line
      throw error
    }
  }

  close(): void {
    if (this.#fd !== undefined && this.#syncs > 0) this.#retired.push(this.#fd)
    else if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }

  #write(line: string): number {
    if (this.#fd === undefined) {
      this.#fd = openSync(this.#file, 'a', 0o600)
      this.#size = readFileSync(this.#file).lastIndexOf(10) + 1
      ftruncateSync(this.#fd, this.#size)
    }
    const bytes = Buffer.from(`${line}\n`)
    try {
      writeFully(this.#fd, bytes)
    } catch (error) {
      ftruncateSync(this.#fd, this.#size) // half a line would corrupt the next one
      throw error
    }
    this.#size += bytes.length
    return this.#fd
  }
}
