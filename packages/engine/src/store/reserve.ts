/**
 * Disk space in reserve. When the disk is full, deleting this file makes room for the few events that park or end a turn.
 */
import { closeSync, fsyncSync, openSync, rmSync, statSync, writeSync } from 'node:fs'

const RESERVE_BYTES = 1024 * 1024 // enough for a few hundred parked and terminal events and their pages

export class Reserve {
  readonly #file: string
  readonly #bytes: number

  constructor(file: string, bytes = RESERVE_BYTES) {
    this.#file = file
    this.#bytes = bytes
  }

  get isThere(): boolean {
    try {
      return statSync(this.#file).size >= this.#bytes
    } catch {
      // Missing or unreadable: either way it cannot be released.
      return false
    }
  }

  /** Takes the space with real blocks: a sparse file would reserve nothing. False if the disk is too full. */
  fill(): boolean {
    if (this.isThere) return true
    try {
      const fd = openSync(this.#file, 'w', 0o600)
      try {
        const block = Buffer.alloc(64 * 1024, 0x5a)
        for (let left = this.#bytes; left > 0;) left -= writeSync(fd, block, 0, Math.min(left, block.length))
        fsyncSync(fd)
      } finally {
        closeSync(fd)
      }
      return true
    } catch {
      // The disk is full right now. A half-filled reserve would only take space from the journal.
      rmSync(this.#file, { force: true })
      return false
    }
  }

  /** Frees the space. False if there was none to free. */
  release(): boolean {
    if (!this.isThere) return false
    rmSync(this.#file, { force: true })
    return true
  }
}
