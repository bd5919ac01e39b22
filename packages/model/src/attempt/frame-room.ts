/** Room in the memory for the large frame that a decoder has: it keeps what it parsed last. */
import type { SseFrame } from '@breakfall/wire'
import { parsedBytes } from '../lib/json-fields.ts'
import { type MemoryShare, taking } from '@breakfall/wire/node'

/** A frame up to this size is parsed without asking for room: nearly all are much smaller. */
const UNCOUNTED_CHARS = 64 * 1024

export class FrameRoom {
  readonly #memory: MemoryShare
  #bytes = 0

  constructor(memory: MemoryShare) {
    this.#memory = memory
  }

  /** For the next frame. The room of the one before it is free again. */
  make({ data }: SseFrame): void {
    if (this.#bytes === 0 && data.length <= UNCOUNTED_CHARS) return
    this.#memory.give(this.#bytes)
    this.#bytes = 0
    const bytes = data.length > UNCOUNTED_CHARS ? parsedBytes(data) : 0
    taking(this.#memory)(bytes)
    this.#bytes = bytes
  }
}
