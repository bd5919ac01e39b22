/** Named pipes, made in bulk in advance: Node cannot make one, and a process per pipe would double the cost of an exec. */
import { execFile } from 'node:child_process'
import { chownSync, readdirSync, renameSync, constants, openSync } from 'node:fs'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'
import { makeFolder } from '../lib/disk.ts'

const BATCH = 64

export class FifoPool {
  readonly #folder: string
  readonly #mkfifo: string
  readonly #ready: string[]
  #made: Promise<void> | undefined
  #serial = 0
  readonly #tag: string

  constructor(folder: string, mkfifo: string, tag: string) {
    makeFolder(folder)
    this.#folder = folder
    this.#mkfifo = mkfifo
    this.#tag = tag // distinguishes this process's names from unused pipes of an earlier one, which are used too
    this.#ready = readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFIFO())
      .map(({ name }) => name)
  }

  /** Reserves pipes for the caller, who places them or gives them back. */
  async hold(count: number): Promise<string[]> {
    while (this.#ready.length < count) await this.#make()
    const held = this.#ready.splice(-count)
    if (this.#ready.length < BATCH / 2) void this.#make().catch(ignored)
    return held
  }

  giveBack(held: readonly string[]): void {
    this.#ready.push(...held)
  }

  /** Moves a held pipe to its path. */
  moveTo(name: string, path: string, owner: { readonly uid: number; readonly gid: number } | undefined): void {
    const from = join(this.#folder, name)
    if (owner !== undefined) chownSync(from, owner.uid, owner.gid)
    renameSync(from, path)
  }

  #make(): Promise<void> {
    this.#made ??= this.#makeBatch().finally(() => {
      this.#made = undefined
    })
    return this.#made
  }

  #makeBatch(): Promise<void> {
    const names = Array.from({ length: BATCH }, () => `${this.#tag}-${(this.#serial += 1)}`)
    return new Promise((resolve, reject) => {
      execFile(this.#mkfifo, ['-m', '600', ...names], { cwd: this.#folder, env: {} }, (error, _out, stderr) => {
        if (error === null) {
          this.#ready.push(...names)
          resolve()
        } else if (/No space left/.test(stderr)) {
          reject(new Fault('journal_full', { boundary: 'runner', cause: error }))
        } else reject(error)
      })
    })
  }
}

/** Opens both ends: no other process has to open it first, and none can end it by closing it. */
export function openFifo(path: string): number {
  return openSync(path, constants.O_RDWR)
}

export function openWriteEnd(path: string): number {
  return openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
}

// ---- details ----

const ignored = (): void => {
  // The next caller that needs a pipe tries again and gets the error.
}
