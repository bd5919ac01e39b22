/** A keeper's status file: read on demand, and followed through inotify with a poll as the safety net. */
import { closeSync, type FSWatcher, openSync, readFileSync, readSync, watch } from 'node:fs'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { type KeeperStatus, parseStatus } from './keeper-status.ts'

export class StatusFile {
  readonly #path: string
  #status: KeeperStatus = parseStatus('')
  #watcher: FSWatcher | undefined
  #poll: NodeJS.Timeout | undefined
  #fd: number | undefined

  constructor(path: string) {
    this.#path = path
  }

  /** As of the last read. */
  get status(): KeeperStatus {
    return this.#status
  }

  /** False if the file cannot be read, because its folder is being removed: the last status stays valid. */
  read(): boolean {
    try {
      this.#status = parseStatus(this.#text())
      return true
    } catch {
      return false // reported by the return value
    }
  }

  /** Calls `onChange` whenever the keeper may have written something, until `unfollow`. */
  follow(onChange: () => void): void {
    try {
      this.#watcher = watch(this.#path, onChange)
      this.#watcher.on('error', () => this.#watcher?.close())
    } catch {
      // Out of inotify watches: the poll below sees the same, later.
    }
    try {
      this.#fd = openSync(this.#path, 'r') // it is read a few times in the next milliseconds
    } catch {
      // Each read then opens the file itself, and reports if it cannot.
    }
    this.#poll = setInterval(onChange, RUNNER_DEFAULTS.pollMs)
  }

  unfollow(): void {
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

const SHARED = Buffer.allocUnsafeSlow(64 * 1024) // filled and read within one call; larger than any status file
