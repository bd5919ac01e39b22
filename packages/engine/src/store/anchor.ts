/**
 * The heads of all journals, in a small file beside the database. A database that lost its last commits (a damaged
 * write-ahead log, a restored backup) looks complete from inside; the anchor remembers how far it had reached.
 *
 * I1  Written after the commit, never before: an anchor may lag behind its journal, but never runs ahead of it.
 * I2  A torn last line is ignored; any other unreadable line is reported.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs'
import { errorCode } from '@breakfall/faults/internal'
import { replaceFile } from '@breakfall/supervisor/platform'

export type Head = { readonly seq: number; readonly hash: string }

type Moved = { readonly id: string; readonly lastSeq: number; readonly hash: string }

/** What a commit changed: how far journals reach now, and which sessions were deleted. */
export type Changes = { readonly moved: readonly Moved[]; readonly deleted: readonly string[] }

/** How far the anchor may lag. At most fifty writes a second, however many commits there are. */
const LAG_MS = 20
const LINES_PER_HEAD_MAX = 64 // rewritten when it holds that many stale lines per session
const LINES_MIN = 4_096

export class Anchor {
  readonly #file: string
  readonly #heads: Map<string, Head>
  readonly damaged: number
  /** Not yet written. An end may move again before that; only its last position counts. */
  readonly #moved = new Set<Moved>()
  readonly #deleted = new Set<string>()
  #timer: NodeJS.Timeout | undefined
  #fd: number
  #lines: number

  constructor(file: string) {
    this.#file = file
    const { heads, damaged, lines } = readHeads(file)
    this.#heads = heads
    this.damaged = damaged
    this.#lines = lines
    this.#fd = openSync(file, 'a', 0o600)
  }

  get heads(): ReadonlyMap<string, Head> {
    return this.#heads
  }

  /** Notes what a commit changed. One write serves all commits within the lag. */
  note({ moved, deleted }: Changes): void {
    for (const end of moved) this.#moved.add(end)
    for (const id of deleted) this.#deleted.add(id)
    if (deleted.length > 0) this.#write() // at once: a deleted session that the anchor still lists would count as lost
    else this.#timer ??= setTimeout(() => this.#write(), LAG_MS)
  }

  /** I1: forgets the changes of a transaction that was rolled back. */
  skip({ moved }: Changes): void {
    for (const end of moved) this.#moved.delete(end)
  }

  close(): void {
    this.#write()
    closeSync(this.#fd)
  }

  #write(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    let text = ''
    for (const { id, lastSeq, hash } of this.#moved) {
      this.#heads.set(id, { seq: lastSeq, hash })
      text += lineOf(id, lastSeq, hash)
    }
    for (const id of this.#deleted) {
      this.#heads.delete(id)
      text += `${id} -\n`
    }
    try {
      this.#append(text)
      this.#lines += this.#moved.size + this.#deleted.size
      if (this.#lines > LINES_MIN + this.#heads.size * LINES_PER_HEAD_MAX) this.#rewrite()
      this.#moved.clear()
      this.#deleted.clear()
    } catch {
      // I1: the disk is full. The next write that succeeds includes these lines.
    }
  }

  /** All or nothing: half a line in the middle would count as damage. */
  #append(text: string): void {
    const written = writeSync(this.#fd, text)
    if (written === Buffer.byteLength(text)) return
    ftruncateSync(this.#fd, fstatSync(this.#fd).size - written)
    throw new Error('the disk took only a part of the write')
  }

  #rewrite(): void {
    const lines = [...this.#heads].map(([id, { seq, hash }]) => lineOf(id, seq, hash))
    replaceFile(this.#file, lines.join(''), { isDurable: true })
    closeSync(this.#fd)
    this.#fd = openSync(this.#file, 'a', 0o600)
    this.#lines = this.#heads.size
  }
}

// ---- details ----

const lineOf = (id: string, seq: number, hash: string): string => `${id} ${seq} ${hash}\n`

function readHeads(file: string): { heads: Map<string, Head>; damaged: number; lines: number } {
  const heads = new Map<string, Head>()
  let damaged = 0
  const text = textOf(file)
  const lines = text.split('\n')
  const torn = lines.pop() // I2: whatever follows the last line break is an unfinished line
  for (const line of lines) {
    const match = /^(\S+) (?:(-)|(\d+) ([0-9a-f]{64}))$/.exec(line)
    if (match?.[1] === undefined) damaged += 1
    else if (match[2] === '-') heads.delete(match[1])
    else heads.set(match[1], { seq: Number(match[3]), hash: match[4] ?? '' })
  }
  if (torn !== undefined && torn !== '') truncateSync(file, Buffer.byteLength(text.slice(0, text.length - torn.length)))
  return { heads, damaged, lines: lines.length }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return ''
    throw error
  }
}
