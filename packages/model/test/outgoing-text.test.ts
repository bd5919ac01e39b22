import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SseDecoder, type SseFrame } from '@breakfall/wire'
import { OutgoingText } from '../src/relay/outgoing-text.ts'

test('events that went out as they came, some left out and others between, are in order and complete', () => {
  const frames: SseFrame[] = []
  const decoder = new SseDecoder({ onEvent: (frame) => frames.push(frame) })
  const events = Array.from({ length: 6 }, (_, index) => `event: e\ndata: ${index}\n\n`)
  decoder.push(events.slice(0, 4).join(''))
  decoder.push(events.slice(4).join(''))
  const out = new OutgoingText()
  for (const [index, frame] of frames.entries()) {
    if (index === 2) continue
    if (index === 5) out.add(': between\n\n')
    out.addFrame(frame)
  }
  out.addFrame({ data: 'a\nb' })
  assert.equal(
    out.take(),
    [0, 1, 3, 4].map((at) => events[at]).join('') + `: between\n\n${events[5]}data: a\ndata: b\n\n`,
  )
  assert.equal(out.take(), '')
})
