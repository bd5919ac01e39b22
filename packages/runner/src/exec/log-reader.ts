/**
 * Reads events from an exec's files, from any point, in the chunks in which they were written. If retention has dropped
 * the bytes, a `gap` says which ones, with the seq of the last event it replaces.
 *
 * I1  Only output is replaced by a gap, and gaps end where another event begins: no seq is skipped without one.
 * I2  Bytes that were given up read as NULs, and are given up while others read. So NULs count as output only if the note of what
 *     was given up, which is written first, does not name them.
 */
import { closeSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode } from '@breakfall/faults/internal'
import type { ExecEvent } from '@breakfall/wire'
import { isoTime } from '../lib/clock.ts'
import { type Bases, readBases } from './output-window.ts'
import { EXEC_FILES } from './exec-folder.ts'
import { type LogRecord, parseRecord, RECORD_BYTES, type Stream } from './event-log.ts'

const RECORDS_AT_ONCE = 64
const BYTES_AT_ONCE = 256 * 1024

type Output = Extract<LogRecord, { kind: 'output' }> & { readonly seq: number }

export class LogReader {
  readonly #folder: string
  readonly #execId: string
  readonly #index: number
  readonly #spools = new Map<Stream, number | undefined>()
  /** Of a background exec, whose oldest output is given up while it runs. */
  #bases: Bases
  #at: number

  constructor(folder: string, execId: string, after: number) {
    this.#folder = folder
    this.#execId = execId
    this.#at = after
    this.#bases = readBases(folder)
    this.#index = openSync(join(folder, EXEC_FILES.index), 'r')
  }

  /** The seq of the last event that was read. */
  get at(): number {
    return this.#at
  }

  /** The next batch of events, up to `count`. Events are read lazily, so a slow reader holds only one in memory. */
  *read(count: number): Generator<ExecEvent, void, undefined> {
    let bytes = 0
    for (const [seq, record] of this.#records(count)) {
      if (record.kind === 'start') {
        this.#at = seq
        yield { seq, type: 'start', execId: this.#execId, pid: record.pid, at: isoTime(record.atMs) }
        continue
      }
      if (record.kind === 'ready') {
        this.#at = seq
        yield { seq, type: 'ready', ports: record.ports, at: isoTime(record.atMs) }
        continue
      }
      const data = this.#isGivenUp(record) ? 'given up' : this.#bytes(record)
      if (data === 'given up' || (data?.includes(0) === true && this.#isGivenUpSince(record))) {
        this.#at = seq
        const { stream, offset, length } = record
        yield { seq, type: 'gap', stream, from: offset, to: offset + length }
        continue
      }
      if (data === undefined) {
        yield* this.#gaps(seq, count)
        return
      }
      this.#at = seq
      bytes += data.length
      yield outputEvent({ ...record, seq }, data)
      if (bytes >= BYTES_AT_ONCE) return
    }
  }

  close(): void {
    closeSync(this.#index)
    for (const fd of this.#spools.values()) if (fd !== undefined) closeSync(fd)
    this.#spools.clear()
  }

  // ---- details ----

  #records(count: number): readonly (readonly [number, LogRecord])[] {
    const wanted = Math.min(RECORDS_AT_ONCE, count - this.#at)
    if (wanted <= 0) return []
    const block = Buffer.alloc(wanted * RECORD_BYTES)
    const read = readSync(this.#index, block, 0, block.length, this.#at * RECORD_BYTES)
    const found: (readonly [number, LogRecord])[] = []
    for (let i = 0; (i + 1) * RECORD_BYTES <= read; i += 1) {
      const record = parseRecord(block.subarray(i * RECORD_BYTES, (i + 1) * RECORD_BYTES))
      if (record === undefined) break
      found.push([this.#at + i + 1, record])
    }
    return found
  }

  #isGivenUp({ stream, offset }: Omit<Output, 'seq'>): boolean {
    return offset < this.#bases[stream]
  }

  /** I2: NULs count only if they were written. */
  #isGivenUpSince(record: Omit<Output, 'seq'>): boolean {
    this.#bases = readBases(this.#folder)
    return this.#isGivenUp(record)
  }

  /** Undefined if the spool is gone, or shorter than the index says. */
  #bytes(record: Extract<LogRecord, { kind: 'output' }>): Buffer | undefined {
    const fd = this.#spool(record.stream)
    if (fd === undefined) return undefined
    const bytes = Buffer.allocUnsafe(record.length)
    return readSync(fd, bytes, 0, record.length, record.offset) === record.length ? bytes : undefined
  }

  #spool(stream: Stream): number | undefined {
    if (!this.#spools.has(stream)) {
      let fd: number | undefined
      try {
        fd = openSync(join(this.#folder, stream), 'r')
      } catch (error) {
        if (errorCode(error) !== 'ENOENT') throw error
      }
      this.#spools.set(stream, fd)
    }
    return this.#spools.get(stream)
  }

  /** Everything that is left. Retention drops both spools, so nothing readable lies in between. */
  *#gaps(from: number, count: number): Generator<ExecEvent, void, undefined> {
    let gaps: readonly Gap[] = []
    this.#at = from - 1
    while (this.#at < count) {
      const records = this.#records(count)
      if (records.length === 0) break
      for (const [seq, record] of records) {
        this.#at = seq
        if (record.kind === 'output') {
          gaps = withOutput(gaps, { ...record, seq })
          continue
        }
        yield* gaps // I1: a gap ends where the next event begins
        gaps = []
        if (record.kind === 'ready') yield { seq, type: 'ready', ports: record.ports, at: isoTime(record.atMs) }
      }
    }
    yield* gaps
  }
}

type Gap = Extract<ExecEvent, { type: 'gap' }>

/** One gap per stream, in the order in which they end. */
function withOutput(gaps: readonly Gap[], { stream, offset, length, seq }: Output): readonly Gap[] {
  const { from = offset } = gaps.find((gap) => gap.stream === stream) ?? {}
  return [...gaps.filter((gap) => gap.stream !== stream), { seq, type: 'gap', stream, from, to: offset + length }]
}

function outputEvent(record: Output, bytes: Buffer): ExecEvent {
  const { seq, stream: type, offset } = record
  return record.isText
    ? { seq, type, offset, data: bytes.toString('utf8') }
    : { seq, type, offset, dataBase64: bytes.toString('base64') }
}
