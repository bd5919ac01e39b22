/**
 * What is on its way to the client. Events that go out as they came in, one after the other, are one piece of what came in: as
 * bytes if possible, since those need no encoding. Several small ones are joined, since each write has its price.
 */
import { isAscii } from 'node:buffer'
import type { SseFrame, SseRead } from '@breakfall/wire'
import { plainFrame } from '../dialects/dialect.ts'

const BYTES_MIN = 4_096

export class Outgoing {
  #pieces: (string | Buffer)[] = []
  #text = ''
  /** The events added last: a piece of what was read, not yet among the pieces. */
  #read: SseRead | undefined
  #from = 0
  #to = 0

  add(text: string): void {
    this.#endRead()
    this.#text += text
  }

  addFrame(frame: SseFrame): void {
    const { source } = frame
    if (source === undefined) return this.add(plainFrame(frame))
    if (source.from !== this.#to || source.read !== this.#read) {
      this.#endRead()
      this.#read = source.read
      this.#from = source.from
    }
    this.#to = source.to
  }

  /** Events as they came. */
  addPiece(piece: string | Buffer): void {
    if (typeof piece === 'string') return this.add(piece)
    this.#endRead()
    this.#endText()
    this.#pieces.push(piece)
  }

  /** Everything since the last call. */
  take(): readonly (string | Buffer)[] {
    this.#endRead(this.#pieces.length === 0 && this.#text === '')
    this.#endText()
    const pieces = this.#pieces
    if (pieces.length > 0) this.#pieces = []
    return pieces
  }

  #endRead(isAll = false): void {
    const read = this.#read
    if (read === undefined) return
    const bytes = isAll || this.#to - this.#from >= BYTES_MIN ? bytesOf(read) : undefined
    if (bytes === undefined) this.#text += read.text.slice(this.#from, this.#to)
    else {
      this.#endText()
      this.#pieces.push(bytes.subarray(this.#from, this.#to))
    }
    this.#read = undefined
    this.#from = this.#to = 0
  }

  #endText(): void {
    if (this.#text !== '') this.#pieces.push(this.#text)
    this.#text = ''
  }
}

/**
 * The bytes of a read, if they have the same indexes as its text: every byte is one character, and there is no character more, as
 * there would be if an earlier read had ended inside one.
 */
function bytesOf({ text, bytes }: SseRead): Buffer | undefined {
  if (bytes === undefined || bytes.length !== text.length || !isAscii(bytes)) return undefined
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}
