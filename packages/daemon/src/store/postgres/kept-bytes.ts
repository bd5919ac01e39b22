/**
 * Copies of bytes, in a few large pieces of memory that are used again and again: thousands of small buffers a second would be work for
 * the garbage collector. Copies are dropped in the order in which they were made.
 */
export class KeptBytes {
  /** Oldest first. */
  readonly #pieces: Piece[] = []
  #spare: Buffer | undefined

  /** Valid until it is dropped. */
  keep(bytes: Buffer): Buffer {
    const piece = this.#pieceFor(bytes.length)
    const from = piece.end
    piece.end += bytes.copy(piece.memory, from)
    piece.count += 1
    return piece.memory.subarray(from, piece.end)
  }

  dropOldest(): void {
    const [oldest] = this.#pieces
    if (oldest === undefined) return
    oldest.count -= 1
    if (oldest.count > 0) return
    this.#pieces.shift()
    if (oldest.memory.length === PIECE_BYTES) this.#spare = oldest.memory
  }

  #pieceFor(length: number): Piece {
    const last = this.#pieces.at(-1)
    if (last !== undefined && last.memory.length - last.end >= length) return last
    const memory =
      length <= PIECE_BYTES ? (this.#spare ?? Buffer.allocUnsafeSlow(PIECE_BYTES)) : Buffer.allocUnsafeSlow(length)
    if (memory === this.#spare) this.#spare = undefined
    const piece = { memory, end: 0, count: 0 }
    this.#pieces.push(piece)
    return piece
  }
}

// ---- details ----

const PIECE_BYTES = 1024 * 1024

type Piece = { readonly memory: Buffer; end: number; count: number }
