/**
 * A text that another answer has to begin with, in a hundredth of its memory: its first block, a digest of each further one, and
 * the characters after the last. Pure.
 *
 * I1  Two texts agree only if they are the same, code unit by code unit. The digests are SHA-256.
 * I2  A reader sees the text as it was when the reader began; what is added later is not part of it.
 */
import { hash } from 'node:crypto'
import { flattened } from '../lib/flat-text.ts'

export type SegmentKind = 'text' | 'reasoning' | 'refusal'
export type Segment = { readonly kind: SegmentKind; readonly text: string }

/** A difference is noticed at the end of its block, so a longer one would have the model write longer for nothing. */
const BLOCK_CHARS = 4_096

export class KnownText {
  #first = ''
  readonly #digests: string[] = []
  #rest = ''
  #length = 0
  #kind: SegmentKind | undefined

  constructor(segments: readonly Segment[] = []) {
    for (const segment of segments) this.add(segment)
  }

  get length(): number {
    return this.#length
  }

  /** Neighbours of one kind are one stretch of text, however many parts it came in. */
  add({ kind, text }: Segment): void {
    if (text === '') return
    const piece = marked(kind, this.#kind, text)
    this.#kind = kind
    this.#length += piece.length
    this.#rest += piece
    if (this.#rest.length < BLOCK_CHARS) return
    let from = 0
    for (; this.#rest.length - from >= BLOCK_CHARS; from += BLOCK_CHARS) {
      const block = this.#rest.slice(from, from + BLOCK_CHARS)
      if (this.#first === '') this.#first = flattened(block)
      else this.#digests.push(digestOf(block))
    }
    this.#rest = flattened(this.#rest.slice(from))
  }

  reader(): KnownTextReader {
    return new KnownTextReader(this.#first, this.#digests, this.#rest, this.#length) // I2
  }
}

/** Compares a text with a known one, piece by piece. */
export class KnownTextReader {
  readonly length: number
  readonly #first: string
  readonly #digests: readonly string[]
  readonly #rest: string
  #at = 0
  #block = ''

  constructor(first: string, digests: readonly string[], rest: string, length: number) {
    this.length = length
    this.#first = first
    this.#digests = digests
    this.#rest = rest
  }

  /** False if the text differs from the known one, as far as that reaches. */
  agrees(piece: string): boolean {
    const restFrom = this.length - this.#rest.length
    let from = 0
    while (from < piece.length && this.#at < this.length) {
      const end = this.#at >= restFrom ? this.length : this.#at - (this.#at % BLOCK_CHARS) + BLOCK_CHARS
      const given = piece.slice(from, from + end - this.#at)
      if (!this.#holds(given, this.#at, restFrom)) return false
      this.#at += given.length
      from += given.length
    }
    return true
  }

  #holds(given: string, at: number, restFrom: number): boolean {
    if (at >= restFrom) return this.#rest.slice(at - restFrom, at - restFrom + given.length) === given
    if (at < BLOCK_CHARS) return this.#first.slice(at, at + given.length) === given
    this.#block += given
    if (this.#block.length < BLOCK_CHARS) return true
    const isSame = digestOf(this.#block) === this.#digests[Math.floor(at / BLOCK_CHARS) - 1]
    this.#block = ''
    return isSame
  }
}

/** The boundary between two kinds of text is part of the text. No model writes a NUL. */
const MARK: Readonly<Record<SegmentKind, string>> = { text: '\0t', reasoning: '\0r', refusal: '\0f' }

export const marked = (kind: SegmentKind, before: SegmentKind | undefined, text: string): string =>
  kind === before ? text : MARK[kind] + text

/** As UTF-16, in which every text has its own bytes: a block may begin or end inside a character. */
const digestOf = (block: string): string => hash('sha256', Buffer.from(block, 'utf16le'), 'base64')
