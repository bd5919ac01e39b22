/**
 * Bytes that arrive piece by piece, held in few blocks. A piece of one byte costs a hundred as an object of its own, and a client chooses
 * the size of its pieces: small ones are copied together.
 */
const PIECE_BYTES_MIN = 16 * 1024 // a piece of that size is worth an object of its own
const BLOCK_BYTES_MIN = 1024
const BLOCK_BYTES_MAX = 64 * 1024

export class HeldBytes {
  readonly #take: (bytes: number) => void
  readonly #full: Buffer[] = []
  #block: Buffer | undefined
  #filled = 0
  #length = 0
  #memory = 0

  /** `take` is called with what a block costs, before it is made. What it throws, `add` throws. */
  constructor(take: (bytes: number) => void = () => undefined) {
    this.#take = (bytes) => {
      take(bytes)
      this.#memory += bytes
    }
  }

  get length(): number {
    return this.#length
  }

  /** What was taken for it. */
  get memory(): number {
    return this.#memory
  }

  add(piece: Buffer): void {
    const memory = piece.buffer.byteLength // held as long as any part of it is
    if (piece.length >= PIECE_BYTES_MIN && memory <= 2 * piece.length) {
      this.#take(memory)
      this.#endBlock()
      this.#full.push(piece)
    } else this.#copy(piece)
    this.#length += piece.length
  }

  /** Everything so far, in order. Nothing is added after that. */
  blocks(): readonly Buffer[] {
    this.#endBlock()
    return this.#full
  }

  // ---- details ----

  #copy(piece: Buffer): void {
    for (let from = 0; from < piece.length;) {
      const block = this.#block ?? this.#newBlock(piece.length - from)
      const copied = piece.copy(block, this.#filled, from)
      this.#filled += copied
      from += copied
      if (this.#filled === block.length) this.#endBlock()
    }
  }

  #newBlock(atLeast: number): Buffer {
    const bytes = Math.max(atLeast, Math.min(BLOCK_BYTES_MAX, Math.max(BLOCK_BYTES_MIN, this.#length)))
    this.#take(bytes)
    this.#filled = 0
    this.#block = Buffer.allocUnsafeSlow(bytes)
    return this.#block
  }

  #endBlock(): void {
    if (this.#block !== undefined && this.#filled > 0) this.#full.push(this.#block.subarray(0, this.#filled))
    this.#block = undefined
  }
}
