/**
 * Space kept for bad days. When the disk is full, deleting this file makes room for the few events that say how a turn
 * waits or ends.
 */
import { closeSync, fsyncSync, openSync, rmSync, statSync, writeSync } from 'node:fs'

const RESERVE_BYTES = 1024 * 1024 // room for some hundreds of parked and terminal events and their pages

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
      // Not there, or not readable: either way it cannot be given away.
      return false
    }
  }

  /** Takes the space, with real blocks: a sparse file would reserve nothing. False where the disk has no room for it. */
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
      // The disk is full right now. A half-filled reserve would only take what the journal needs more.
      rmSync(this.#file, { force: true })
      return false
    }
  }

  /** Gives the space back. False where there was none left to give. */
  release(): boolean {
    if (!this.isThere) return false
    rmSync(this.#file, { force: true })
    return true
  }
}
