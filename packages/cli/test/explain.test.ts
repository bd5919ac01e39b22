import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Fault, FAULT_CATEGORIES, FAULTS, joinMessage, messageFor, toProblem } from '@breakfall/faults'
import type { Turn } from '@breakfall/wire'
import { explanationFor, linesOf, printExplanation } from '../src/commands/explain/explain.ts'
import { explain } from '../src/commands/explain/explanation.ts'
import type { Output } from '../src/terminal/output.ts'
import { aTurn, capturedOutput } from './samples.ts'

type Sample = { readonly id: string; readonly sample?: string; readonly line?: string; readonly text?: string }
const fixture = (name: string): readonly Sample[] =>
  readFileSync(new URL(`../../../fixtures/${name}`, import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Sample)
const sampleOf = (row: Sample): string => row.sample ?? row.line ?? row.text ?? ''

test('every captured failure line is recognised by its signature', () => {
  // Rows without a sample are known by their exit status, not by a line.
  const rows = fixture('signatures.jsonl').filter((row) => sampleOf(row) !== '')
  assert.ok(rows.length > 100)
  for (const row of rows) {
    const { report } = explain(sampleOf(row))
    assert.ok(
      report.diagnostics.some(({ id }) => id === row.id),
      `${row.id}: ${sampleOf(row)}`,
    )
  }
})

test("a provider's error is recognised as SDKs print it, and as we do", () => {
  const long = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
  const body = { error: { message: long, type: 'invalid_request_error', param: null, code: 'context_length_exceeded' } }
  for (const text of [
    `HTTP 400 ${JSON.stringify(body)}`,
    `400 ${JSON.stringify(body)}`,
    `Error code: 400 - {'error': {'message': "${long}", 'param': None, 'code': 'context_length_exceeded'}}`,
    `openai.BadRequestError: Error code: 400 - {'error': {'message': 'the model\\'s limit', 'code': 'context_length_exceeded'}}`,
  ])
    assert.equal(explain(text).report.category, 'model_context_overflow', text)
  for (const text of [
    long,
    `BadRequestError: 400 ${long}`,
    `400 ${long}`,
    `HTTP 400 ${long}`,
    `Error code: 400 - ${long}`,
    `openai.BadRequestError: Error code: 400 - ${long}`,
    `12:00:01 request failed\nlitellm.ContextWindowExceededError: litellm.BadRequestError: ${long}`,
    'APIError: 400 prompt is too long: 213462 tokens > 200000 maximum',
  ])
    assert.equal(explain(text).report.category, 'model_context_overflow', text)
  for (const text of [`a test asserts: ${long}`, `// ${long}`])
    assert.notEqual(explain(text).report.category, 'model_context_overflow', text)
  const refused = "Error code: 401 - {'error': {'message': 'Incorrect API key provided', 'code': 'invalid_api_key'}}"
  assert.equal(explain(refused).report.category, 'model_auth_failed')
  assert.equal(explain('line 404 of the log').report.category, 'other')
})

test('text that only looks like a failure is other, and hints do not hide an error', () => {
  for (const { id, line = '' } of fixture('signatures.negative.jsonl')) {
    const { report } = explain(line)
    assert.equal(report.category, 'other', `${id}: ${line}`)
    assert.ok(
      report.diagnostics.every(({ rank }) => rank === 'hint'),
      id,
    )
  }
  const hint = fixture('signatures.negative.jsonl').find(({ line = '' }) => explain(line).report.diagnostics.length > 0)
  const { report } = explain(`${hint?.line}\nError: connect ECONNREFUSED 127.0.0.1:8080\n`)
  assert.equal(report.category, 'model_unreachable')
  assert.deepEqual(
    report.diagnostics.map(({ rank }) => rank),
    ['hint'],
  )
})

test('a fault report, a problem document and a turn-error are returned unchanged', () => {
  const fault = new Fault('journal_full', { errorRaw: 'ENOSPC' })
  for (const value of [fault.report, toProblem(fault), { type: 'turn-error', seq: 4, ...fault.report }]) {
    const { report, by } = explain(JSON.stringify(value))
    assert.equal(report.category, 'journal_full')
    assert.equal(report.errorRaw, 'ENOSPC')
    assert.equal(by, 'a fault report')
  }
})

test("a provider's sentence without the JSON around it: what the classifier of answers knows, and nothing more", () => {
  const wrongKey = 'Incorrect API key provided: sk-…abcd. You can find your API key at https://platform.openai.com.'
  for (const [text, category] of [
    ['You exceeded your current quota, please check your plan and billing details.', 'model_quota_exhausted'],
    ['APIError: 400 Your credit balance is too low to access the Anthropic API.', 'model_quota_exhausted'],
    [`401 ${wrongKey}`, 'model_auth_failed'],
    [wrongKey, 'other'],
    ['our docs say: You exceeded your current quota', 'other'],
  ] as const)
    assert.equal(explain(text).report.category, category, text)
})

test("a provider's error body, alone or inside a log", () => {
  assert.equal(
    explain(
      '{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}',
    ).report.category,
    'model_quota_exhausted',
  )
  assert.equal(
    explain(
      '12:00:01 request failed\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n',
    ).report.category,
    'model_overloaded',
  )
})

test('error codes and messages are classified at the given boundary', () => {
  const node =
    "TypeError: fetch failed\n    at node:internal\n  [cause]: Error: connect ECONNREFUSED 127.0.0.1:11434 {\n    code: 'ECONNREFUSED' }"
  assert.equal(explain(node).report.category, 'model_unreachable')
  assert.equal(explain(node, 'runner').report.category, 'runner_unreachable')
  assert.equal(explain('read SSE stream: unexpected EOF').report.category, 'model_stream_interrupted')
  assert.equal(explain('HTTP/1.1 429 Too Many Requests').report.category, 'model_rate_limited')
})

test('an exit code says what it usually means', () => {
  for (const text of ['137', 'exit status 137', 'killed by SIGKILL']) {
    const { report, by } = explain(text)
    assert.equal(by, 'an exit status')
    assert.equal(report.category, 'process_failed')
    assert.match(report.error, /SIGKILL.*memory ran out/)
    assert.equal(report.diagnostics[0]?.id, 'exit.killed')
  }
  assert.match(explain('127').report.error, /not found/)
  assert.match(explain('77').report.error, /does not say why/)
})

test('our own exit codes are explained', () => {
  const meanings = {
    3: /parked/,
    4: /credentials/,
    7: /budget[^]*token limit/,
    125: /daemon or the runner/,
    130: /cancelled/,
  }
  for (const [code, meaning] of Object.entries(meanings)) {
    const { report } = explain(code)
    assert.match(report.error, meaning)
    assert.match(report.error, /From a breakfall command it means/)
  }
  assert.deepEqual(
    linesOf(explain('3'), (_style, text) => text),
    [explain('3').report.error],
  ) // no category, no page
  assert.equal(explain('429').report.category, 'model_rate_limited')
})

test('a turn without a fault is explained in one line', async () => {
  const id = '01a1e1cd-90df-7436-ab50-513eaace73a7'
  const unused = (): never => assert.fail('not asked for')
  const turn = (): Promise<Turn> => Promise.resolve(aTurn({ id, state: 'finished', parked: null }))
  const viewer = { turn, turns: unused, session: unused, sessionPage: unused, events: unused }
  const { out, text } = capturedOutput()
  printExplanation(await explanationFor({ input: id, boundary: 'model', viewer: () => Promise.resolve(viewer) }), out)
  assert.match(text(), /^Turn \S+ is finished; it has no fault to explain\n$/)
})

test('a category is explained by its own sentence, alone or as we print it', () => {
  for (const category of FAULT_CATEGORIES) {
    const { report } = explain(category)
    assert.equal(report.category, category)
    assert.equal(report.error, joinMessage(messageFor(category)))
    assert.equal(report.class, FAULTS[category].class)
    assert.equal(report.next, FAULTS[category].next)
  }
  const { report } = explain('model_stream_stalled: no byte for 300 s')
  assert.equal(report.category, 'model_stream_stalled')
  assert.equal(report.errorRaw, 'no byte for 300 s')
})

test('the raw error of a log is the line that matched, and the headline says it once', () => {
  const line = 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB'
  const { report } = explain(`starting\nloading weights\n${line}\nbye\n`)
  assert.equal(report.errorRaw, line)
  assert.equal(report.error.match(/out of memory/gi)?.length, 1)
})

test('the text names the exit code and the page, and omits a raw error that adds nothing', () => {
  const shown = linesOf(explain('model_stream_stalled'), (_style, text) => text).join('\n')
  assert.match(shown, /exit code +3, if a breakfall command fails this way/)
  assert.doesNotMatch(shown, /^raw/m)
  const page = /more: (.*)/.exec(shown)?.[1] ?? ''
  assert.ok(readFileSync(page, 'utf8').includes('model_stream_stalled'))
})

test('nothing to explain is a usage error', async () => {
  const viewer = (): never => assert.fail('no daemon is needed')
  await assert.rejects(explanationFor({ input: ' ', boundary: 'model', viewer }), { category: 'invalid_request' })
})

test('nothing recognised is other, without diagnostics', () => {
  for (const text of ['', 'hello there', 'the year 2024 was good', '{"fine": true}']) {
    const { report } = explain(text)
    assert.equal(report.category, 'other', text)
    assert.deepEqual(report.diagnostics, [])
    assert.deepEqual([report.boundary, explain(text, 'runner').report.boundary], ['model', 'runner'])
  }
})

test("a number at the start of a line counts as a status only in a status's place", () => {
  for (const text of ['429 files changed', '500 tests passed', '404 lines, 3 errors'])
    assert.equal(explain(text).report.category, 'other', text)
  for (const text of [
    '429 Too Many Requests',
    '429 status code (no body)',
    'RateLimitError: 429 You sent too many',
    '429',
  ])
    assert.equal(explain(text).report.category, 'model_rate_limited', text)
})

test("an SDK's error message, with the status and the JSON after it", () => {
  const body = '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
  assert.equal(explain(`Error: 529 ${body}`).report.category, 'model_overloaded')
  assert.equal(explain(`APIError: ${body}`).report.category, 'model_overloaded')
})

test("a shell's message about a child that a signal killed", () => {
  for (const text of [
    'Killed',
    'bash: line 1:  1234 Killed                  ./train',
    'Segmentation fault (core dumped)',
  ])
    assert.equal(explain(text).report.category, 'process_failed', text)
  assert.equal(explain('Killed 3 bugs today').by, 'nothing known')
})

test('a warning that a server survives is a hint, not a failure', () => {
  const { report } = explain(
    'update_slots : failed to find free space in the KV cache, retrying with smaller n_batch = 256',
  )
  assert.equal(report.category, 'other')
  assert.deepEqual(
    report.diagnostics.map(({ id, rank }) => [id, rank]),
    [['llamacpp.kv_retry', 'hint']],
  )
})

test("a provider's context overflow message without its JSON", () => {
  assert.equal(explain("This model's maximum context length is 8192 tokens").report.category, 'model_context_overflow')
})

test('a missing file is reported as missing, not explained as an unknown error', async () => {
  const viewer = (): never => assert.fail('no daemon is needed')
  for (const input of ['no-such.log', './no/such', '/no/such/file'])
    await assert.rejects(explanationFor({ input, boundary: 'model', viewer }), /There is no file/)
})

test('a file without a known failure is said to have none, and a folder is no file', async () => {
  const viewer = (): never => assert.fail('no daemon is needed')
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-explain-'))
  const file = join(folder, 'build.log')
  writeFileSync(file, 'compiling\nlinking\nall is well\n')
  try {
    const explanation = await explanationFor({ input: file, viewer })
    assert.equal(explanation.by, 'nothing known')
    assert.equal(explanation.report.error, `${file} has 3 lines; none matches a known failure.`)
    await assert.rejects(explanationFor({ input: folder, viewer }), /is not a file/)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test("a database that refuses connections is not the model server, unless the user says that it is the model's boundary", () => {
  for (const [text, server] of [
    ['Error: connect ECONNREFUSED 127.0.0.1:5432', 'PostgreSQL'],
    ['connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection refused', 'PostgreSQL'],
    ['[ioredis] Unhandled error event: Error: connect ECONNREFUSED 10.0.0.4:7001', 'Redis'],
    ['Error: connect ETIMEDOUT 10.0.0.9:3306\n    at TCPConnectWrap (node:net:1)', 'MySQL'],
  ] as const) {
    const { report, by } = explain(text)
    assert.deepEqual([report.category, by], ['other', "another program's server"], text)
    assert.match(report.error, new RegExp(`^This is about ${server}, not about the model server`), text)
  }
  assert.equal(explain('Error: connect ECONNREFUSED 127.0.0.1:5432', 'model').report.category, 'model_unreachable')
  assert.equal(explain('Error: connect ECONNREFUSED 127.0.0.1:8080').report.category, 'model_unreachable')
})

test('a line that Breakfall printed is explained as what it names', () => {
  const raw = 'connect ECONNREFUSED 127.0.0.1:41231'
  for (const line of [
    `⚡ runner_unreachable: ${raw} → looking up the address again (1/6)`,
    `breakfall: The runner does not answer.\n  runner_unreachable: ${raw}`,
    `12:00:01 ⚡ abc123  runner_unreachable: ${raw}`,
  ]) {
    const { report } = explain(line)
    assert.deepEqual([report.category, report.errorRaw], ['runner_unreachable', raw], line)
  }
  for (const line of [
    '⏸ still parked after 2 steps: waiting for the network (network_down)',
    '2026-11-15 22:40:36 UTC  turn parked: network_down (session 01a1e15e-9b05)',
    '  survived network_down ×2: fetch failed → resumed',
  ])
    assert.equal(explain(line).report.category, 'network_down', line)
  for (const line of ['error: not_found: no such user', '{"code":"network_down"}', 'see docs/faults/network_down'])
    assert.equal(explain(line).by, 'nothing known', line)
})

test('an unknown text has no culprit', () => {
  const plain: Output['style'] = (_style, text) => text
  assert.deepEqual(linesOf(explain('the frobnicator is sad'), plain), [
    'nothing in this text matches a known failure; the report has the raw text',
    '',
    'raw        the frobnicator is sad',
  ])
  assert.equal(explain('999').by, 'nothing known')
  assert.equal(explain('429').by, 'an error')
})

test('a short out-of-memory line of a GPU is recognised, a sentence about one is not', () => {
  for (const text of ['CUDA out of memory', 'RuntimeError: CUDA out of memory.'])
    assert.deepEqual(
      explain(text).report.diagnostics.map(({ id }) => id),
      ['torch.cuda_oom'],
      text,
    )
  assert.equal(explain('how CUDA out of memory errors are handled').by, 'nothing known')
})
