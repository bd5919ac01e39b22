/** What this process listens to while a keeper runs a command: the keeper's status file and the deadline. */
import type { StatusFile } from './status-file.ts'

export class RunWatch {
  readonly #status: StatusFile
  #deadline: NodeJS.Timeout | undefined

  constructor(status: StatusFile) {
    this.#status = status
  }

  start(listener: { readonly onStatus: () => void; readonly onDeadline: () => void }, remainingMs: number): void {
    this.#deadline = setTimeout(listener.onDeadline, Math.max(0, remainingMs))
    this.#status.follow(listener.onStatus)
  }

  stop(): void {
    clearTimeout(this.#deadline)
    this.#status.unfollow()
  }
}
