/** Request bodies that clients compress. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { jsonBody } from '../src/internal.ts'

const MIB = 1024 * 1024
const JSON_BYTES = Buffer.from('{"model":"m"}')

test('compressed bodies are read, also many at once', async () => {
  const sent = [JSON_BYTES, gzipSync(JSON_BYTES), zstdCompressSync(JSON_BYTES), zstdCompressSync(gzipSync(JSON_BYTES))]
  const encodings = ['identity', 'gzip', 'zstd', 'gzip, zstd']
  const asked = Array.from({ length: 40 }, (_, i) =>
    jsonBody(sent[i % 4] ?? JSON_BYTES, { 'content-encoding': encodings[i % 4] ?? '' }, MIB),
  )
  for (const read of await Promise.all(asked)) assert.deepEqual(read?.json, { model: 'm' })
})

test('many bodies that grow beyond the limit use little memory, and later ones are still read', async () => {
  const program = join(import.meta.dirname, 'programs', 'bombs.ts')
  const { read, usedMib } = JSON.parse(execFileSync(process.execPath, [program], { encoding: 'utf8' })) as {
    read: number
    usedMib: number
  }
  assert.equal(read, 0)
  assert.ok(usedMib < 512, `${Math.round(usedMib)} MiB`) // all at once: more than 1,024
  const broken = Array.from({ length: 8 }, () => jsonBody(Buffer.from('no'), { 'content-encoding': 'gzip' }, MIB))
  assert.deepEqual(new Set(await Promise.all(broken)), new Set([undefined]))
  assert.deepEqual((await jsonBody(gzipSync(JSON_BYTES), { 'content-encoding': 'gzip' }, MIB))?.json, { model: 'm' })
})
