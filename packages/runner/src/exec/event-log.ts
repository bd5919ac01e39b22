/**
 * The log of one exec: its bytes in a spool file per stream, and an index of fixed records that says which event is
 * which bytes. Whoever reads, live or years later, reads these files, so everybody gets the same events.
 *
 * I1  An event can be seen only when its bytes are in the spool and its record is in the index, in that order.
 * I2  Event n is record n: seq has no holes, and the exit event, kept in its own file, is the one after the last record.
 * I3  Text events end at a character; what has begun waits for the rest of it (at most 3 bytes a stream), or for the end.
 * I4  After a kill -9 the index is a prefix of the truth and the spool is at least as long: `open` makes events of the rest.
 * I5  While bytes are between the pipe and the spool, a note in the place of the next record says so. Whoever finds it after a
 *     kill -9 knows what was lost, and keeps that in a file: the exec will tell.
 */
import { isUtf8 } from 'node:buffer'
import {
  appendFileSync,
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { writeFully } from '../state/disk.ts'
import { wholeCharacters } from './utf8-cut.ts'

export const STREAMS = ['stdout', 'stderr'] as const
export type Stream = (typeof STREAMS)[number]

export type LogRecord =
  | { readonly kind: 'start'; readonly pid: number; readonly atMs: number }
  | {
      readonly kind: 'output'
      readonly stream: Stream
      readonly isText: boolean
      readonly offset: number
      readonly length: number
    }

/** Written when the exec is reserved, so that a disk that is full later cannot lose the first events. */
export const INDEX_BYTES_FIRST = 4_096
export const RECORD_BYTES = 16

export class EventLog {
  readonly #folder: string
  readonly #index: number
  readonly #spools: Record<Stream, number | undefined> = { stdout: undefined, stderr: undefined }
  readonly #covered: Record<Stream, number> = { stdout: 0, stderr: 0 }
  readonly #pending: Record<Stream, Buffer> = { stdout: NONE, stderr: NONE }
  readonly #record = Buffer.alloc(RECORD_BYTES)
  readonly #note = Buffer.alloc(RECORD_BYTES)
  #isHeld = false
  #count = 0
  #closed = false

  /** `isNew` where nobody can have written into it yet. */
  constructor(folder: string, isNew = false) {
    this.#folder = folder
    this.#index = openSync(join(folder, 'index'), 'r+')
    if (!isNew) this.#recount()
  }

  /** Events so far; the exit event is not counted. */
  get count(): number {
    return this.#count
  }

  bytes(stream: Stream): number {
    return this.#covered[stream] + this.#pending[stream].length
  }

  start(pid: number, atMs: number): void {
    this.#add(KIND_START, pid, atMs)
  }

  /** I5. Before bytes leave a pipe, with 0 for their number, and again when that is known. */
  hold(stream: Stream, length: number): void {
    this.#isHeld = true
    this.#putNote(put(this.#note, stream === 'stdout' ? KIND_HELD : KIND_HELD + 1, length, this.bytes(stream)))
  }

  /** I5. None of them are on their way any more. */
  release(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#putNote(NO_RECORD)
  }

  /** Throws where the disk does not take them; what is there then is still consistent. */
  append(stream: Stream, bytes: Buffer): void {
    this.#toSpool(stream, bytes)
    const waiting = this.#pending[stream]
    const all = waiting.length === 0 ? bytes : Buffer.concat([waiting, bytes])
    const whole = wholeCharacters(all)
    this.#pending[stream] = whole === all.length ? NONE : Buffer.from(all.subarray(whole)) // I3
    if (whole === 0) {
      this.release()
      return
    }
    this.#isHeld = false // the record takes the place of the note
    this.#output(stream, all.subarray(0, whole))
  }

  /** No more will come: what waited for the rest of a character is an event as it is. */
  flush(): void {
    for (const stream of STREAMS) {
      const rest = this.#pending[stream]
      this.#pending[stream] = NONE
      if (rest.length > 0) this.#output(stream, rest)
    }
  }

  /** So many bytes were counted, and those after the last ones that we have are gone: readers are told so. */
  lack(stream: Stream, bytes: number): void {
    const length = bytes - this.#covered[stream]
    if (length <= 0) return
    this.#add(stream === 'stdout' ? KIND_STDOUT : KIND_STDERR, Math.min(length, LENGTH_MAX), this.#covered[stream])
    this.#covered[stream] += Math.min(length, LENGTH_MAX)
    this.lack(stream, bytes)
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    closeSync(this.#index)
    for (const stream of STREAMS) {
      const fd = this.#spools[stream]
      if (fd !== undefined) closeSync(fd)
    }
  }

  // ---- details ----

  #putNote(note: Buffer): void {
    try {
      writeFully(this.#index, note, this.#count * RECORD_BYTES)
    } catch {
      // A full disk. What matters is said when the bytes themselves are refused.
    }
  }

  #toSpool(stream: Stream, bytes: Buffer): void {
    const fd = (this.#spools[stream] ??= openSync(join(this.#folder, stream), 'a', 0o600))
    const before = this.bytes(stream)
    try {
      writeFully(fd, bytes)
    } catch (error) {
      ftruncateSync(fd, before) // half a chunk would shift every later offset
      throw error
    }
  }

  #output(stream: Stream, bytes: Buffer): void {
    const kind = (stream === 'stdout' ? KIND_STDOUT : KIND_STDERR) + (isUtf8(bytes) ? 0 : 1)
    this.#add(kind, bytes.length, this.#covered[stream])
    this.#covered[stream] += bytes.length
  }

  #add(kind: number, length: number, offset: number): void {
    put(this.#record, kind, length, offset)
    const bytes = this.#isHeld ? Buffer.concat([this.#record, this.#note]) : this.#record // I5
    writeFully(this.#index, bytes, this.#count * RECORD_BYTES) // I1: the spool has the bytes by now
    this.#count += 1 // I2
  }

  /** Finds out how far an earlier process got. */
  #recount(): void {
    const size = fstatSync(this.#index).size
    const record = Buffer.alloc(RECORD_BYTES)
    while ((this.#count + 1) * RECORD_BYTES <= size) {
      readSync(this.#index, record, 0, RECORD_BYTES, this.#count * RECORD_BYTES)
      const parsed = parseRecord(record)
      if (parsed === undefined || (parsed.kind === 'output' && parsed.offset !== this.#covered[parsed.stream])) break
      if (parsed.kind === 'output') this.#covered[parsed.stream] += parsed.length
      this.#count += 1
    }
    this.#noteLoss()
    for (const stream of STREAMS) this.#takeUp(stream)
  }

  /** I5 */
  #noteLoss(): void {
    const note = this.#note
    if (readSync(this.#index, note, 0, RECORD_BYTES, this.#count * RECORD_BYTES) < RECORD_BYTES) return
    const stream = STREAMS[note.readUInt8(0) - KIND_HELD]
    if (stream === undefined) return
    const [length, offset] = [note.readUInt32LE(4), note.readDoubleLE(8)]
    const spool = join(this.#folder, stream)
    const kept = (existsSync(spool) ? statSync(spool).size : 0) - offset
    if (length === 0 ? kept === 0 : kept < length)
      appendFileSync(join(this.#folder, LOST), `${stream} ${offset + kept} ${length === 0 ? '?' : length - kept}\n`)
    this.#isHeld = true
    this.release()
  }

  /** I4: bytes that made it into the spool but not into the index. */
  #takeUp(stream: Stream): void {
    let fd: number
    try {
      fd = openSync(join(this.#folder, stream), 'r')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
      throw error
    }
    try {
      const chunk = Buffer.alloc(64 * 1024)
      for (;;) {
        const read = readSync(fd, chunk, 0, chunk.length, this.#covered[stream])
        if (read === 0) break
        const whole = wholeCharacters(chunk.subarray(0, read))
        if (whole > 0) this.#output(stream, chunk.subarray(0, whole))
        if (whole === read || read === chunk.length) continue
        this.#pending[stream] = Buffer.from(chunk.subarray(whole, read)) // the end of the spool, inside a character
        break
      }
    } finally {
      closeSync(fd)
    }
  }
}

/** Bytes of a stream that an earlier runner took out of the pipe and was killed with; undefined where nobody knows how many. */
export type Loss = { readonly stream: string; readonly after: number; readonly bytes: number | undefined }

export function lossesOf(folder: string): readonly Loss[] {
  const file = join(folder, LOST)
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'latin1').split('\n').filter(Boolean)
  return lines.map((line) => {
    const [stream = '', after, bytes] = line.split(' ')
    return { stream, after: Number(after), bytes: bytes === '?' ? undefined : Number(bytes) }
  })
}

const LOST = 'lost'
const NONE = Buffer.alloc(0)
const NO_RECORD = Buffer.alloc(RECORD_BYTES)
const TIME_MS_MAX = 8.64e15 // the last moment that a date can name, and more bytes than any disk has
const LENGTH_MAX = 2 ** 32 - 1 // of one record
const KIND_START = 1
const KIND_STDOUT = 2
const KIND_STDERR = 4
const KIND_HELD = 6 // of stdout; 7 of stderr

export const startRecord = (pid: number, atMs: number): Buffer => put(Buffer.alloc(RECORD_BYTES), KIND_START, pid, atMs)

function put(record: Buffer, kind: number, length: number, offset: number): Buffer {
  record.writeUInt8(kind, 0)
  record.writeUInt32LE(length, 4)
  record.writeDoubleLE(offset, 8)
  return record
}

/** Undefined for the zeros of a record that was never written, and for what cannot be one of ours. */
export function parseRecord(record: Buffer): LogRecord | undefined {
  const kind = record.readUInt8(0)
  const length = record.readUInt32LE(4)
  const offset = record.readDoubleLE(8)
  if (!(offset >= 0 && offset <= TIME_MS_MAX && Number.isInteger(offset))) return undefined
  if (kind === KIND_START) return { kind: 'start', pid: length, atMs: offset }
  if (kind < KIND_STDOUT || kind > KIND_STDERR + 1) return undefined
  return { kind: 'output', stream: kind < KIND_STDERR ? 'stdout' : 'stderr', isText: kind % 2 === 0, offset, length }
}
