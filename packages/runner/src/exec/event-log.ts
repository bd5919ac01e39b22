/**
 * The log of one exec: its bytes in a spool file per stream, and an index of fixed-size records that maps events to bytes.
 * Live and late readers read the same files, so all of them get the same events.
 *
 * I1  An event can be seen only when its bytes are in the spool and its record is in the index, in that order.
 * I2  Event n is record n: seq has no gaps, and the exit event, stored in its own file, comes after the last record.
 * I3  Text events end at a character; an incomplete character (at most 3 bytes per stream) waits for its rest or the end.
 * I4  Another process writes the bytes, and runs a moment longer if this one is killed. So the index may cover less than the
 *     spool has; `grow` makes events of the rest.
 */
import { isUtf8 } from 'node:buffer'
import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { writeFully } from '../lib/disk.ts'

export const STREAMS = ['stdout', 'stderr'] as const
export type Stream = (typeof STREAMS)[number]

export type LogRecord =
  | { readonly kind: 'start'; readonly pid: number; readonly atMs: number }
  | { readonly kind: 'ready'; readonly ports: readonly number[]; readonly atMs: number }
  | {
      readonly kind: 'output'
      readonly stream: Stream
      readonly isText: boolean
      readonly offset: number
      readonly length: number
    }

/** Allocated when the exec is reserved, so a disk that is full later cannot lose the first events. */
export const INDEX_BYTES_FIRST = 4_096
export const RECORD_BYTES = 16

export class EventLog {
  readonly #folder: string
  readonly #index: number
  readonly #spools: Record<Stream, number | undefined> = { stdout: undefined, stderr: undefined }
  readonly #covered: Record<Stream, number> = { stdout: 0, stderr: 0 }
  /** Bytes of an incomplete character. */
  readonly #waiting: Record<Stream, number> = { stdout: 0, stderr: 0 }
  readonly #record = Buffer.alloc(RECORD_BYTES)
  #count = 0
  #closed = false

  /** `isNew`: the log is certainly empty. */
  constructor(folder: string, isNew = false) {
    this.#folder = folder
    this.#index = openSync(join(folder, 'index'), 'r+')
    if (!isNew) this.#recount()
  }

  /** Events so far, without the exit event. */
  get count(): number {
    return this.#count
  }

  bytes(stream: Stream): number {
    return this.#covered[stream] + this.#waiting[stream]
  }

  start(pid: number, atMs: number): void {
    this.#add(KIND_START, pid, atMs)
  }

  /** Has room for two ports; its record has all of them. */
  ready([first = 0, second = 0]: readonly number[], atMs: number): void {
    this.#add(KIND_READY, first + second * 0x1_0000, atMs)
  }

  /** The spool has `size` bytes now. Throws if the disk refuses the records; the log is consistent even then. */
  grow(stream: Stream, size: number): void {
    this.#waiting[stream] = 0
    let incomplete = 0
    while (this.#covered[stream] + incomplete < size) {
      const bytes = this.#read(stream, size)
      const whole = wholeCharacters(bytes)
      if (whole > 0) this.#output(stream, bytes.subarray(0, whole))
      incomplete = bytes.length - whole
    }
    this.#waiting[stream] = incomplete // I3
  }

  /** No more bytes will come: incomplete characters become events. */
  flush(): void {
    for (const stream of STREAMS) {
      const size = this.bytes(stream)
      this.#waiting[stream] = 0
      if (this.#covered[stream] < size) this.#output(stream, this.#read(stream, size))
    }
  }

  /** `bytes` were written, but the last of them are gone: adds records for which readers get a gap. */
  addGap(stream: Stream, bytes: number): void {
    const length = bytes - this.#covered[stream]
    if (length <= 0) return
    this.#add(stream === 'stdout' ? KIND_STDOUT : KIND_STDERR, Math.min(length, LENGTH_MAX), this.#covered[stream])
    this.#covered[stream] += Math.min(length, LENGTH_MAX)
    this.addGap(stream, bytes)
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

  #read(stream: Stream, size: number): Buffer {
    const fd = (this.#spools[stream] ??= openSync(join(this.#folder, stream), 'r'))
    const length = Math.min(SHARED.length, size - this.#covered[stream])
    const read = readSync(fd, SHARED, 0, length, this.#covered[stream])
    if (read < length) throw new Error(`the spool of ${stream} has fewer than ${size} bytes`)
    return SHARED.subarray(0, length)
  }

  #output(stream: Stream, bytes: Buffer): void {
    const kind = (stream === 'stdout' ? KIND_STDOUT : KIND_STDERR) + (isUtf8(bytes) ? 0 : 1)
    this.#add(kind, bytes.length, this.#covered[stream])
    this.#covered[stream] += bytes.length
  }

  #add(kind: number, length: number, offset: number): void {
    put(this.#record, kind, length, offset)
    writeFully(this.#index, this.#record, this.#count * RECORD_BYTES) // I1: the spool already has the bytes
    this.#count += 1 // I2: event n is record n
  }

  /** Counts what an earlier process wrote. */
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
  }
}

export function spoolBytes(folder: string, stream: Stream): number {
  return statSync(join(folder, stream), { throwIfNoEntry: false })?.size ?? 0
}

/**
 * Whether the index has this many events: a power cut may keep an end and lose what came before it. Checks the first ones one by
 * one, and the last.
 */
export function hasEvents(folder: string, count: number): boolean {
  if (count <= 0) return true
  try {
    const fd = openSync(join(folder, 'index'), 'r')
    try {
      const first = readRecords(fd, 0, Math.min(count, CHECKED_MAX))
      return isUnbroken(first) && readRecords(fd, count - 1, 1)[0] !== undefined
    } finally {
      closeSync(fd)
    }
  } catch {
    return false // missing, or not a file
  }
}

/**
 * How many bytes from the start form whole characters: an incomplete last character is left out. Does not check whether
 * the bytes are UTF-8 at all.
 */
export function wholeCharacters(bytes: Uint8Array): number {
  const { length } = bytes
  for (let back = 1; back <= Math.min(3, length); back += 1) {
    const byte = bytes[length - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue // a continuation byte: the first byte is further back
    return sequenceLength(byte) > back ? length - back : length
  }
  return length
}

// ---- details ----

const SHARED = Buffer.allocUnsafeSlow(64 * 1024) // filled and read within one call
const TIME_MS_MAX = 8.64e15 // the last moment that a Date can represent, and more bytes than any disk has
const LENGTH_MAX = 2 ** 32 - 1 // of one record
const KIND_START = 1
const KIND_STDOUT = 2
const KIND_STDERR = 4
const KIND_READY = 6

export const startRecord = (pid: number, atMs: number): Buffer => put(Buffer.alloc(RECORD_BYTES), KIND_START, pid, atMs)

function put(record: Buffer, kind: number, length: number, offset: number): Buffer {
  record.writeUInt8(kind, 0)
  record.writeUInt32LE(length, 4)
  record.writeDoubleLE(offset, 8)
  return record
}

/** Undefined for the zeros of an unwritten record, and for anything that is not a record. */
export function parseRecord(record: Buffer): LogRecord | undefined {
  const kind = record.readUInt8(0)
  const length = record.readUInt32LE(4)
  const offset = record.readDoubleLE(8)
  if (!(offset >= 0 && offset <= TIME_MS_MAX && Number.isInteger(offset))) return undefined
  if (kind === KIND_START) return { kind: 'start', pid: length, atMs: offset }
  if (kind === KIND_READY)
    return { kind: 'ready', ports: [length & 0xffff, length >>> 16].filter((port) => port > 0), atMs: offset }
  if (kind < KIND_STDOUT || kind > KIND_STDERR + 1) return undefined
  return { kind: 'output', stream: kind < KIND_STDERR ? 'stdout' : 'stderr', isText: kind % 2 === 0, offset, length }
}

function sequenceLength(first: number): number {
  if (first >= 0xf0 && first <= 0xf4) return 4
  if (first >= 0xe0 && first < 0xf0) return 3
  if (first >= 0xc2 && first < 0xe0) return 2
  return 1
}

const CHECKED_MAX = 4_096 // records: nearly every exec has fewer, and a restart checks every exec

function readRecords(fd: number, from: number, count: number): readonly (LogRecord | undefined)[] {
  const bytes = Buffer.alloc(count * RECORD_BYTES) // zeros are not records, so missing bytes count as damage
  readSync(fd, bytes, 0, bytes.length, from * RECORD_BYTES)
  return Array.from({ length: count }, (_, i) => parseRecord(bytes.subarray(i * RECORD_BYTES, (i + 1) * RECORD_BYTES)))
}

/** Each record starts where the previous one of its stream ended. */
function isUnbroken(records: readonly (LogRecord | undefined)[]): boolean {
  const covered = { stdout: 0, stderr: 0 }
  return records.every((record) => {
    if (record?.kind !== 'output') return record !== undefined
    if (record.offset !== covered[record.stream]) return false
    covered[record.stream] += record.length
    return true
  })
}
