/** Request bodies as they arrive: held as bytes, decompressed, read as far as needed, and changed on their way. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { type MemoryShare, MemoryBudget, receiveBody } from '../src/internal.ts'
import { unboundedShare } from '@breakfall/wire/node'
import { withChanges } from '../src/relay/request-body.ts'

const MIB = 1024 * 1024
const BODY = Buffer.from('{"model":"m"}')

type Given = { encoding?: string; bytesMax?: number; memory?: MemoryShare; look?: 'fields' | 'model' | 'nothing' }

function received(body: Buffer | readonly Buffer[], given: Given = {}) {
  const { encoding, bytesMax = MIB, memory = unboundedShare(), look = 'fields' } = given
  const headers: Record<string, string> = encoding === undefined ? {} : { 'content-encoding': encoding, x: 'y' }
  return receiveBody(Buffer.isBuffer(body) ? [body] : body, { headers, bytesMax, memory, look })
}

test('compressed bodies are read, also many at once, and go on without their encoding', async () => {
  const sent = [BODY, gzipSync(BODY), zstdCompressSync(BODY), brotliCompressSync(BODY), deflateSync(BODY), zstdCompressSync(gzipSync(BODY))] // prettier-ignore
  const encodings = ['identity', 'gzip', 'zstd', 'br', 'deflate', 'gzip, zstd']
  const budget = new MemoryBudget(512 * MIB)
  const shares = Array.from({ length: 60 }, () => budget.open())
  const asked = shares.map((memory, i) => received(sent[i % 6] ?? BODY, { encoding: encodings[i % 6] ?? '', memory }))
  for (const { read, sent: bytes } of await Promise.all(asked)) {
    assert.deepEqual([read?.json, read?.headers['x']], [{ model: 'm' }, 'y'])
    assert.deepEqual(bytes, [BODY])
  }
  assert.ok(budget.bytes < 60 * 4096, `${budget.bytes}`) // the decoders and what was compressed are gone
})

test('a body that cannot be decompressed is left as it is', async () => {
  const cut = gzipSync(BODY).subarray(0, 20)
  for (const [body, encoding] of [
    [Buffer.from('no'), 'gzip'],
    [cut, 'gzip'],
    [BODY, 'unknown'],
    [gzipSync(BODY), 'gzip, gzip, gzip'],
  ] as const) {
    const { sent, read } = await received(body, { encoding })
    assert.deepEqual([Buffer.concat(sent), read], [body, undefined], encoding)
  }
})

test('a body over the limit is refused, whether it was sent or decompresses to it, and so are fields over theirs', async () => {
  const spaces = Buffer.alloc(2 * MIB, ' ')
  await assert.rejects(received([spaces]), { category: 'payload_too_large' })
  for (const [encoding, compress] of [
    ['gzip', gzipSync],
    ['zstd', zstdCompressSync],
    ['br', brotliCompressSync],
  ] as const)
    // prettier-ignore
    await assert.rejects(received(compress(spaces), { encoding }), { category: 'payload_too_large' })
  const tools = Buffer.from(`{"tools":[${'{},'.repeat(100_000)}{}]}`)
  await assert.rejects(received(tools), (thrown: Error) =>
    /the field "tools" at most 4194304 bytes and 100000 values/.test(thrown.message),
  )
  assert.equal((await received(tools, { look: 'model' })).model, undefined)
})

test('when the memory for all requests is used up, a body is refused so that its client comes back', async () => {
  const budget = new MemoryBudget(MIB)
  const [first, second] = [budget.open(), budget.open()]
  const body = (bytes: number): Buffer => Buffer.from(`{"model":"m","x":"${'x'.repeat(bytes)}"}`)
  await received(body(700_000), { memory: first })
  await assert.rejects(received(body(700_000), { memory: second }), { category: 'quota_exceeded' })
  await assert.rejects(received(gzipSync(body(700_000)), { memory: second, encoding: 'gzip' }), {
    category: 'quota_exceeded',
  })
  first.close()
  second.close()
  const third = budget.open()
  assert.equal((await received(body(700_000), { memory: third })).read?.json['model'], 'm')
})

test('a zstd body that needs a window of 128 MiB is not decompressed here', async () => {
  const { constants } = await import('node:zlib')
  const params = { [constants.ZSTD_c_windowLog]: 27 }
  const { read } = await received(zstdCompressSync(Buffer.alloc(100, ' '), { params }), { encoding: 'zstd' })
  assert.equal(read, undefined)
})

test('many bodies that grow beyond the limit at once use little memory', () => {
  const program = join(import.meta.dirname, 'programs', 'bombs.ts')
  const { refused, usedMib } = JSON.parse(execFileSync(process.execPath, [program], { encoding: 'utf8' })) as {
    refused: number
    usedMib: number
  }
  assert.equal(refused, 40)
  assert.ok(usedMib < 384, `${Math.round(usedMib)} MiB`) // all at once: more than 640
})

test('fields are changed and messages added in the bytes, whatever the rest looks like', async () => {
  const added = { role: 'assistant', content: 'Hel"lo' }
  for (const json of [
    '{}',
    ' { } ',
    '{"messages":[]}',
    '{"messages":[ ] , "model" : "old" }',
    '{"model":"old","messages":[{"role":"user","content":"]}"} ],"flag":1.0}',
    '{"messages":null,"model":["old"],"flag":{"a":[[]]}}',
    `{"a":"${'x'.repeat(3 * MIB)}","messages":[1],"b":"${'y'.repeat(MIB)}"}`,
  ]) {
    const bytes = Buffer.from(json)
    const pieces = Array.from({ length: Math.ceil(bytes.length / 100_000) }, (_, i) => bytes.subarray(i * 100_000, (i + 1) * 100_000)) // prettier-ignore
    const { read } = await received(pieces, { bytesMax: 8 * MIB })
    assert.ok(read !== undefined, json.slice(0, 100))
    const changed = JSON.parse(Buffer.concat(withChanges(read.body, { model: 'new' }, [added])).toString()) as object
    const before = JSON.parse(json) as { messages?: unknown[] }
    assert.deepEqual(changed, { ...before, model: 'new', messages: [...(before.messages ?? []), added] })
    assert.deepEqual(JSON.parse(Buffer.concat(withChanges(read.body, {}, [])).toString()), before)
  }
})
