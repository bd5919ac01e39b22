/** The event log: exact, replayable in the same chunks, and able to continue after a crash at any write. */
import assert from 'node:assert/strict'
import { appendFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { ExecEvent } from '@breakfall/wire'
import fc from 'fast-check'
import {
  EventLog,
  INDEX_BYTES_FIRST,
  RECORD_BYTES,
  spoolBytes,
  type Stream,
  STREAMS,
  wholeCharacters,
} from '../src/exec/event-log.ts'
import { LogReader } from '../src/exec/log-reader.ts'
import { bytesOf } from './kit.ts'

function withLog(work: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-log-'))
  try {
    writeFileSync(join(folder, 'index'), Buffer.alloc(INDEX_BYTES_FIRST))
    work(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** What the pump does, followed by its report. */
function append(folder: string, log: EventLog, stream: Stream, bytes: Uint8Array): void {
  appendFileSync(join(folder, stream), bytes)
  log.grow(stream, spoolBytes(folder, stream))
}

function replay(folder: string, count: number, after = 0): ExecEvent[] {
  const reader = new LogReader(folder, 'e1', after)
  const events: ExecEvent[] = []
  while (reader.at < count) events.push(...reader.read(count))
  reader.close()
  return events
}

const writes = fc.array(
  fc.record({
    stream: fc.constantFrom(...STREAMS),
    bytes: fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 40 }).map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
      fc.constant(Buffer.from([0xe2])),
      fc.constant(Buffer.from([0x82, 0xac])),
    ),
  }),
  { maxLength: 30 },
)

test('any output is read back byte for byte, as valid events, from any point', () => {
  fc.assert(
    fc.property(writes, fc.nat(40), (list, from) => {
      withLog((folder) => {
        const log = new EventLog(folder)
        log.start(42, 1_000)
        for (const { stream, bytes } of list) append(folder, log, stream, bytes)
        log.flush()
        const events = replay(folder, log.count)
        for (const stream of STREAMS) {
          const wanted = Buffer.concat(list.filter((write) => write.stream === stream).map(({ bytes }) => bytes))
          assert.deepEqual(bytesOf(events, stream), wanted)
          assert.equal(log.bytes(stream), wanted.length)
        }
        for (const event of events)
          if ('data' in event)
            assert.equal(Buffer.from(String(event.data)).includes('\ufffd'), String(event.data).includes('\ufffd'))
        const after = Math.min(from, log.count)
        assert.deepEqual(replay(folder, log.count, after), events.slice(after))
        log.close()
      })
    }),
  )
})

test('text that arrives in any chunks has text events only', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', maxLength: 200 }),
      fc.array(fc.nat(200), { maxLength: 20 }),
      (text, cuts) => {
        withLog((folder) => {
          const bytes = Buffer.from(text)
          const log = new EventLog(folder)
          const places = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)), bytes.length].toSorted((a, b) => a - b)
          for (let i = 1; i < places.length; i += 1)
            append(folder, log, 'stdout', bytes.subarray(places[i - 1], places[i]))
          log.flush()
          const events = replay(folder, log.count)
          assert.ok(events.every((event) => event.type === 'stdout' && event.dataBase64 === undefined))
          assert.equal(bytesOf(events, 'stdout').toString(), text)
          log.close()
        })
      },
    ),
  )
})

test('after a crash at any index record, earlier events stay and the rest follows', () => {
  fc.assert(
    fc.property(writes, writes, fc.nat(60), (before, after, lost) => {
      withLog((folder) => {
        const first = new EventLog(folder)
        for (const { stream, bytes } of before) append(folder, first, stream, bytes)
        const kept = Math.max(0, first.count - lost)
        const seen = replay(folder, kept)
        first.close()
        truncateSync(join(folder, 'index'), kept * RECORD_BYTES) // the spool is ahead of the index, never behind it
        const second = new EventLog(folder)
        for (const stream of STREAMS) second.grow(stream, spoolBytes(folder, stream))
        for (const { stream, bytes } of after) append(folder, second, stream, bytes)
        second.flush()
        const events = replay(folder, second.count)
        assert.deepEqual(events.slice(0, kept), seen)
        for (const stream of STREAMS) {
          const wanted = Buffer.concat(
            [...before, ...after].filter((write) => write.stream === stream).map(({ bytes }) => bytes),
          )
          assert.deepEqual(bytesOf(events, stream), wanted)
        }
        second.close()
      })
    }),
  )
})

test('bytes that arrive before the start event become events only after it', () => {
  withLog((folder) => {
    writeFileSync(join(folder, 'stdout'), 'early') // by the pump; the runner was killed before it heard of them
    const log = new EventLog(folder)
    assert.equal(log.count, 0)
    log.start(42, 1_000)
    log.grow('stdout', spoolBytes(folder, 'stdout'))
    assert.deepEqual(
      replay(folder, log.count).map(({ type }) => type),
      ['start', 'stdout'],
    )
    log.close()
  })
})

test('a spool that is shorter than reported is an error, not an event', () => {
  withLog((folder) => {
    const log = new EventLog(folder, true)
    append(folder, log, 'stdout', Buffer.from('abc'))
    assert.throws(() => log.grow('stdout', 5), /fewer than 5 bytes/)
    assert.deepEqual([log.count, log.bytes('stdout')], [1, 3])
    log.close()
  })
})

test('events are read lazily, so a reader that stops holds only one', () => {
  withLog((folder) => {
    const log = new EventLog(folder)
    log.start(1, 0)
    for (let i = 0; i < 5; i += 1) append(folder, log, 'stdout', Buffer.from(`line ${i}\n`))
    log.close()
    const reader = new LogReader(folder, 'e1', 0)
    const lot = reader.read(log.count)
    for (const seq of [1, 2, 3]) {
      assert.equal((lot.next().value as ExecEvent).seq, seq)
      assert.equal(reader.at, seq)
    }
    reader.close()
  })
})

test('dropped bytes are one gap per stream, with the seq of the last event it replaces', () => {
  withLog((folder) => {
    const log = new EventLog(folder)
    log.start(1, 1)
    for (const [stream, text] of [
      ['stdout', 'a'],
      ['stderr', 'bb'],
      ['stdout', 'ccc'],
    ] as const)
      append(folder, log, stream, Buffer.from(text))
    log.close()
    for (const stream of STREAMS) rmSync(join(folder, stream))
    assert.deepEqual(replay(folder, 4, 1), [
      { seq: 3, type: 'gap', stream: 'stderr', from: 0, to: 2 },
      { seq: 4, type: 'gap', stream: 'stdout', from: 0, to: 4 },
    ])
    assert.deepEqual(replay(folder, 4, 3), [{ seq: 4, type: 'gap', stream: 'stdout', from: 1, to: 4 }])
  })
})

test('a process that was ready after its last output is read in order, although that output was dropped', () => {
  withLog((folder) => {
    const log = new EventLog(folder)
    log.start(1, 1)
    append(folder, log, 'stdout', Buffer.from('a'))
    append(folder, log, 'stderr', Buffer.from('bb'))
    log.flush()
    log.ready([3000], 2)
    append(folder, log, 'stdout', Buffer.from('ccc'))
    log.close()
    for (const stream of STREAMS) rmSync(join(folder, stream))
    assert.deepEqual(
      replay(folder, 5).map(({ seq, type }) => [seq, type]),
      [
        [1, 'start'],
        [2, 'gap'],
        [3, 'gap'],
        [4, 'ready'],
        [5, 'gap'],
      ],
    )
    assert.deepEqual(replay(folder, 5, 4), [{ seq: 5, type: 'gap', stream: 'stdout', from: 1, to: 4 }])
  })
})

test('bytes that are given up while they are read are a gap, and NULs that a command printed are not', () => {
  withLog((folder) => {
    const log = new EventLog(folder)
    log.start(1, 1)
    for (const text of ['first', 'second', 'a\0b']) append(folder, log, 'stdout', Buffer.from(text))
    log.close()
    const reader = new LogReader(folder, 'e1', 1)
    writeFileSync(join(folder, 'bases.json'), JSON.stringify({ stdout: 11, stderr: 0 }))
    writeFileSync(join(folder, 'stdout'), Buffer.concat([Buffer.alloc(11), Buffer.from('a\0b')]))
    assert.deepEqual(
      [...reader.read(4)],
      [
        { seq: 2, type: 'gap', stream: 'stdout', from: 0, to: 5 },
        { seq: 3, type: 'gap', stream: 'stdout', from: 5, to: 11 },
        { seq: 4, type: 'stdout', offset: 11, data: 'a\0b' },
      ],
    )
    reader.close()
  })
})

test('an incomplete last character is left out; bytes that cannot become a character are not', () => {
  const cut = (...bytes: number[]): number => wholeCharacters(Uint8Array.from(bytes))
  assert.equal(cut(0x61, 0xe2, 0x82), 1)
  assert.equal(cut(0x61, 0xe2, 0x82, 0xac), 4)
  assert.equal(cut(0xf0, 0x9f, 0x98), 0)
  assert.equal(cut(0x80, 0x80, 0x80, 0x80), 4)
  assert.equal(cut(0xff), 1)
  assert.equal(cut(), 0)
})
