/** Follows a keeper's status file: by the kernel's word where there is one, and by a poll in any case. */
import { type FSWatcher, readFileSync, watch } from 'node:fs'
import { RUNNER_DEFAULTS } from '../defaults.ts'
import { type KeeperStatus, parseStatus } from './status.ts'

export class StatusWatch {
  readonly #path: string
  #status: KeeperStatus = parseStatus('')
  #watcher: FSWatcher | undefined
  #poll: NodeJS.Timeout | undefined

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
      this.#status = parseStatus(readFileSync(this.#path, 'latin1'))
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
    this.#poll = setInterval(look, RUNNER_DEFAULTS.pollMs)
  }

  stop(): void {
    clearInterval(this.#poll)
    this.#watcher?.close()
  }
}
