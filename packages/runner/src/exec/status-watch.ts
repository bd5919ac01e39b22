/** Follows a keeper's status file: by the kernel's word where there is one, and by a poll in any case. */
import { closeSync, type FSWatcher, openSync, readFileSync, readSync, watch } from 'node:fs'
import { RUNNER_DEFAULTS } from '../defaults.ts'
import { type KeeperStatus, parseStatus } from './status.ts'

export class StatusWatch {
  readonly #path: string
  #status: KeeperStatus = parseStatus('')
  #watcher: FSWatcher | undefined
  #poll: NodeJS.Timeout | undefined
  #fd: number | undefined

  constructor(path: string) {
    this.#path = path
  }

  /** As it was read last. */
  get status(): KeeperStatus {
    return this.#status
  }

  /** False where the folder is being removed; what was known is then all there is to know. */
  read(): boolean {
    try {
      this.#status = parseStatus(this.#text())
      return true
    } catch {
      return false // the caller is told, and goes by what it knows
    }
  }

  /** Calls `look` whenever something may have been written. */
  start(look: () => void): void {
    try {
      this.#watcher = watch(this.#path, look)
      this.#watcher.on('error', () => this.#watcher?.close())
    } catch {
      // Out of inotify watches: the poll below sees the same, later.
    }
    try {
      this.#fd = openSync(this.#path, 'r') // it is read a few times in the next milliseconds
    } catch {
      // Then each read opens it, and says so where that cannot be done.
    }
    this.#poll = setInterval(look, RUNNER_DEFAULTS.pollMs)
  }

  stop(): void {
    clearInterval(this.#poll)
    this.#watcher?.close()
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }

  #text(): string {
    if (this.#fd === undefined) return readFileSync(this.#path, 'latin1')
    return SHARED.toString('latin1', 0, readSync(this.#fd, SHARED, 0, SHARED.length, 0))
  }
}

const SHARED = Buffer.allocUnsafeSlow(64 * 1024) // filled and read within one call; more than any keeper has to say
