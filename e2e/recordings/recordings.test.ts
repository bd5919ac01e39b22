/** Answers in the shape of each provider's real ones, replayed with every hold and cut at every event. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { recordingsIn } from './read.ts'
import { replayAll } from './replay.ts'

const FOLDER = fileURLToPath(new URL('../../fixtures/streams/', import.meta.url))

test('answers as each provider sends them arrive unchanged after one request, and cut at any event they are whole or end visibly', async () => {
  const recordings = await recordingsIn(FOLDER)
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.json'))
  const { wrong, ...counts } = await replayAll(recordings)
  assert.deepEqual(wrong, [])
  assert.deepEqual([counts.recordings, counts.streams, counts.leftOut], [files.length, files.length, 0])
  assert.deepEqual([counts.unbroken, counts.sameBytes + counts.sameEvents], [files.length * 8, files.length * 8])
  assert.deepEqual([counts.lostSignatures, counts.notJudged], [0, 0])
  assert.equal(counts.identical + counts.visibleEnds + counts.withoutUsage, counts.cuts)
  assert.ok(counts.identical > counts.cuts * 0.9, JSON.stringify(counts))
})
