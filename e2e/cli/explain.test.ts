/** `explain --json -` on captured failures of `fixtures/`, and on texts that only look like failures. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { Desk } from './desk.ts'
import type { Json } from '../daemon/client.ts'
import { isFault } from '../daemon/shapes.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const rows = (name: string): Json[] =>
  readFileSync(new URL(`../../fixtures/${name}`, import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Json)
const SIGNATURES = rows('signatures.jsonl').filter(({ sample }) => sample !== '')
const LOOK_ALIKES = rows('signatures.negative.jsonl')
/** Every fifteenth. The supervisor's tests look for all of them. */
const SOME = SIGNATURES.filter((_, i) => i % 15 === 3)

async function explain(desk: Desk, input: string, ...more: string[]): Promise<Json> {
  const ended = await desk.command(['explain', '--json', ...more, '-'], { input, bare: true })
  assert.equal(ended.code, 0, ended.stderr)
  assert.equal(ended.lines.length, 1, 'one fault report')
  isFault(ended.json[0] as Json)
  return ended.json[0]
}

describe('explain --json -', { ...LIMIT, concurrency: 2 }, () => {
  test('names each failure in a log, with its rank, its advice and its evidence', async () => {
    await using desk = await Desk.start()
    const report = await explain(desk, SOME.map(({ sample }) => `${sample}\n`).join('some line between\n'))
    const found = report.diagnostics.map(({ id }: Json) => id)
    assert.deepEqual(new Set(found), new Set(SOME.map(({ id }) => id)), 'each of them, and nothing else')
    for (const diagnostic of report.diagnostics) {
      const said = JSON.stringify(diagnostic)
      assert.ok(['cause', 'consequence', 'hint'].includes(diagnostic.rank), said)
      assert.ok(typeof diagnostic.advice === 'string' && diagnostic.advice !== '', said)
      assert.ok(Array.isArray(diagnostic.evidence) && diagnostic.evidence.length > 0, said)
      assert.ok(diagnostic.count >= 1, said)
    }
  })

  test('look-alikes are never fatal', async () => {
    await using desk = await Desk.start()
    const together = await explain(desk, LOOK_ALIKES.map(({ line }) => `${line}\n`).join(''))
    assert.deepEqual(
      together.diagnostics.filter(({ rank }: Json) => rank !== 'hint'),
      [],
    )
  })

  test('the cause comes before the noise that follows it', async () => {
    await using desk = await Desk.start()
    const oom = SIGNATURES.find(({ id }) => id === 'mlx.metal_oom')
    const noise = LOOK_ALIKES.find(({ id }) => id === 'neg.py_resource_tracker')
    const report = await explain(desk, `loading\n${oom.sample}\n${noise.line}\n`)
    assert.equal(report.diagnostics[0].id, 'mlx.metal_oom')
    assert.equal(report.diagnostics[0].rank, 'cause')
    assert.match(report.error, /memory/i)
  })

  test('unrecognised input is "other", without diagnostics', async () => {
    await using desk = await Desk.start()
    for (const input of ['', `all is well today\n\u0000\u0001 binary \ufffd\n${'x'.repeat(300_000)}`]) {
      const report = await explain(desk, input)
      assert.equal(report.category, 'other')
      assert.deepEqual(report.diagnostics, [])
    }
  })

  test('knows network errors, HTTP errors and exit codes', async () => {
    await using desk = await Desk.start()
    const refused = 'Error: connect ECONNREFUSED 127.0.0.1:8080'
    assert.equal((await explain(desk, refused)).category, 'model_unreachable')
    assert.equal((await explain(desk, refused, '--boundary', 'runner')).category, 'runner_unreachable')
    const limited = '429 {"error":{"message":"Rate limit reached","type":"rate_limit_error"}}'
    assert.equal((await explain(desk, limited)).category, 'model_rate_limited')
    const overflow = `400 {"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}`
    assert.equal((await explain(desk, overflow)).category, 'model_context_overflow')
  })

  test('a secret in its input does not appear in its output', async () => {
    await using desk = await Desk.start()
    const key = 'sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF'
    const report = await explain(desk, `401 Incorrect API key provided: ${key}. Authorization: Bearer ${key}`)
    assert.equal(JSON.stringify(report).includes(key), false)
  })
})
