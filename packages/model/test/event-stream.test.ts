/** AWS's event stream: frames that are right pass, whatever the reads; all others break the answer off. */
import assert from 'node:assert/strict'
import { crc32 } from 'node:zlib'
import { test } from 'node:test'
import { SseDecoder, type SseFrame } from '@breakfall/wire'
import { EventStreamReader, eventStreamFrame, framed } from '../src/lib/event-stream.ts'

const HEADERS = { ':event-type': 'chunk', ':content-type': 'application/json', ':message-type': 'event' }
const INNER = ['{"type":"message_start","n":1.0}', '{"type":"ping","text":"ü 😀 \\u2028"}', '{"type":"message_stop"}']
const b64 = (text: string): string => Buffer.from(text).toString('base64')
const frames = INNER.map((inner, at) =>
  framed(HEADERS, `{"bytes":"${b64(inner)}"${at === 2 ? '' : `,"p":"${'abcdefghij'.slice(0, at + 3)}"`}}`),
)

function read(bytes: Buffer, size: number): readonly SseFrame[] {
  const reader = new EventStreamReader()
  const events: SseFrame[] = []
  const decoder = new SseDecoder({ onEvent: (frame) => events.push(frame) })
  for (let at = 0; at < bytes.length; at += size) decoder.push(reader.push(bytes.subarray(at, at + size)))
  decoder.push(reader.end())
  return events
}

test('frames are read alike in any pieces, and written again they have the same bytes', () => {
  const bytes = Buffer.concat(frames)
  for (const size of [1, 7, 12, 100, bytes.length]) {
    const events = read(bytes, size)
    assert.deepEqual(
      events.map(({ data }) => data),
      INNER,
    )
    assert.deepEqual(Buffer.concat(events.map(eventStreamFrame)), bytes)
  }
})

test('both checksums are those of zlib', () => {
  const [frame = Buffer.alloc(0)] = frames
  assert.equal(frame.readUInt32BE(8), crc32(frame.subarray(0, 8)))
  assert.equal(frame.readUInt32BE(frame.length - 4), crc32(frame.subarray(0, -4)))
})

test('one bit that is wrong anywhere breaks the answer off, after the frames before it', () => {
  const [first = Buffer.alloc(0), second = Buffer.alloc(0)] = frames
  for (let at = 0; at < second.length; at++) {
    const bad = Buffer.from(second)
    bad.writeUInt8((bad[at] ?? 0) ^ (1 << (at % 8)), at)
    assert.throws(
      () => read(Buffer.concat([first, bad]), 1_000_000),
      { category: 'model_stream_interrupted' },
      `byte ${at}`,
    )
  }
  const reader = new EventStreamReader()
  const bad = Buffer.from(second)
  bad.writeUInt8(1, bad.length - 1)
  assert.match(reader.push(Buffer.concat([first, bad])), /message_start/)
  assert.throws(() => reader.push(Buffer.alloc(1)), { errorRaw: /checksum/ })
})

test('a body that ends inside a frame is no end, and a length that no frame has is refused at once', () => {
  const bytes = Buffer.concat(frames)
  for (let to = 1; to < (frames[0]?.length ?? 0); to++)
    assert.throws(() => read(bytes.subarray(0, to), 1_000), { category: 'model_stream_interrupted' })
  const huge = Buffer.alloc(12)
  huge.writeUInt32BE(0x7fffffff, 0)
  huge.writeUInt32BE(crc32(huge.subarray(0, 8)), 8)
  assert.throws(() => new EventStreamReader().push(huge), { errorRaw: /claims 2147483647 bytes/ })
  const short = Buffer.alloc(16)
  short.writeUInt32BE(16, 0)
  short.writeUInt32BE(9, 4) // more headers than the frame has room for
  short.writeUInt32BE(crc32(short.subarray(0, 8)), 8)
  assert.throws(() => new EventStreamReader().push(short), { errorRaw: /claims/ })
})

test('an exception is an error event with the status that it means, and is written again unchanged', () => {
  const payload = '{"message":"Too many tokens, please wait before trying again."}'
  const headers = {
    ':exception-type': 'throttlingException',
    ':content-type': 'application/json',
    ':message-type': 'exception',
  }
  const bytes = framed(headers, payload)
  const [event] = read(bytes, 5)
  assert.deepEqual(JSON.parse(event?.data ?? ''), {
    type: 'error',
    error: { type: 'throttlingException', status: 429, message: 'Too many tokens, please wait before trying again.' },
  })
  assert.deepEqual(event && eventStreamFrame(event), bytes)
})

test('headers of other types are skipped, and an event that wraps nothing is its own JSON', () => {
  const number = Buffer.concat([Buffer.of(4), Buffer.from('date'), Buffer.of(8), Buffer.alloc(8)])
  const flag = Buffer.concat([Buffer.of(2), Buffer.from('ok'), Buffer.of(0)])
  const plain = framed({ ':event-type': 'messageStop' }, '{"stopReason":"end_turn"}')
  const head = Buffer.concat([number, flag, plain.subarray(12, 12 + plain.readUInt32BE(4))])
  const body = plain.subarray(12 + plain.readUInt32BE(4), -4)
  const bytes = Buffer.alloc(12 + head.length + body.length + 4)
  bytes.writeUInt32BE(bytes.length, 0)
  bytes.writeUInt32BE(head.length, 4)
  bytes.writeUInt32BE(crc32(bytes.subarray(0, 8)), 8)
  head.copy(bytes, 12)
  body.copy(bytes, 12 + head.length)
  bytes.writeUInt32BE(crc32(bytes.subarray(0, -4)), bytes.length - 4)
  const [event] = read(bytes, 3)
  assert.deepEqual([event?.event, event?.data], ['messageStop', '{"stopReason":"end_turn"}'])
})
