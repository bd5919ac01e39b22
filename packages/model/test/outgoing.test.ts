import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SseDecoder, type SseFrame } from '@breakfall/wire'
import { Outgoing } from '../src/relay/outgoing.ts'

test('events that went out as they came, some left out and others between, are in order and complete', () => {
  const frames: SseFrame[] = []
  const decoder = new SseDecoder({ onEvent: (frame) => frames.push(frame) })
  const events = Array.from({ length: 6 }, (_, index) => `event: e\ndata: ${String(index).repeat(3_000)}\n\n`)
  decoder.push(Buffer.from(events.slice(0, 4).join('')))
  decoder.push(events.slice(4).join(''))
  const out = new Outgoing()
  for (const [index, frame] of frames.entries()) {
    if (index === 2) continue
    if (index === 5) out.add(': between\n\n')
    out.addFrame(frame)
  }
  out.addFrame({ data: 'a\nb' })
  const pieces = out.take()
  assert.equal(
    pieces.map(String).join(''),
    [0, 1, 3, 4].map((at) => events[at]).join('') + `: between\n\n${events[5]}data: a\ndata: b\n\n`,
  )
  assert.deepEqual(
    pieces.map((piece) => typeof piece),
    ['object', 'string'],
    'a large piece of what came as bytes goes out as bytes',
  )
  assert.deepEqual(out.take(), [])
})

test('a read whose characters are not its bytes goes out as text', () => {
  const long = `data: ${'x'.repeat(5_000)}\n\n`
  const umlaut = Buffer.from('data: ü\n\n')
  const reads = [
    [Buffer.from(long), umlaut],
    [Buffer.from(long), umlaut.subarray(0, 7)],
    [umlaut.subarray(7), Buffer.from(long)],
    [umlaut.subarray(0, 7)],
    [Buffer.from(`\n\n${long}`)], // the rest of the character never came
  ]
  const out = new Outgoing()
  const decoder = new SseDecoder({ onEvent: (frame) => out.addFrame(frame) })
  for (const read of reads) decoder.push(Buffer.concat(read))
  assert.deepEqual(out.take(), [`${long}data: ü\n\n${long}data: ü\n\n${long}data: \uFFFD\n\n${long}`])
})

test('a small event goes out as the bytes that came; several, from several reads, as one text', () => {
  const event = 'data: x\n\n'
  const out = new Outgoing()
  const decoder = new SseDecoder({ onEvent: (frame) => out.addFrame(frame) })
  decoder.push(Buffer.from(event))
  assert.deepEqual(out.take(), [Buffer.from(event)])
  for (let read = 0; read < 3; read++) decoder.push(Buffer.from(event))
  assert.deepEqual(out.take(), [event.repeat(3)])
})
