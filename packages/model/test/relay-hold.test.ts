/** What the relay holds back: tool calls until they are proven, the whole answer, or nothing. */
import assert from 'node:assert/strict'
import type { IncomingHttpHeaders } from 'node:http'
import { test } from 'node:test'
import type { ReturnedHeaders } from '../src/internal.ts'
import { HeldFrames } from '../src/relay/held-frames.ts'
import { MemoryBudget, unboundedShare } from '@breakfall/wire/node'
import { ClientStream } from '../src/relay/client-stream.ts'
import { TOOLS } from './collect.ts'
import { GOOD } from './play.ts'
import { relayed } from './relayed.ts'
import {
  answer,
  callMore,
  callStart,
  done,
  finish,
  frame,
  role,
  text,
  toolAnswer,
} from '../../../test/kit/openai-frames.ts'
import { head, lastChunk, pause, type Play, reset, silence } from '../../../test/kit/plays.ts'

const CALL = toolAnswer('bash', '{"command":"ls"}', [text('Let me')])
const CALL_CUT: Play = [head(), role, text('Let me'), callStart('c1', 'bash'), callMore('{"comma'), reset]

test('a tool call goes out once it is complete, after the text before it', async () => {
  const got = await relayed([CALL])
  assert.equal(got.text, 'Let me')
  assert.deepEqual(got.calls, ['{"command":"ls"}'])
})

test('with hold tools, an interrupted call after text is healed by an identical beginning', async () => {
  const got = await relayed([CALL_CUT, CALL])
  assert.equal(got.text, 'Let me')
  assert.deepEqual(got.calls, ['{"command":"ls"}'])
  assert.equal(got.error, undefined)
})

test('with hold tools, no part of a call that stays cut goes out', async () => {
  const got = await relayed([CALL_CUT], { policy: { attemptsMax: 2 } })
  assert.deepEqual(got.calls, [])
  assert.equal(got.error?.code, 'model_stream_interrupted')
  const cut: Play = [head(), role, callStart('c', 'bash', '{"com'), finish('length'), done, lastChunk]
  const length = await relayed([cut], { policy: { attemptsMax: 2 } })
  assert.equal(length.status, 502)
  assert.equal(length.headers['x-breakfall-category'], 'tool_call_truncated')
})

test('with hold answer, every break heals and nothing is sent before the answer is complete', async () => {
  const script = [[head(), role, text('Howdy'), reset], CALL_CUT, [head(), role, text('Hey'), lastChunk], GOOD]
  const got = await relayed(script, { hold: 'answer' })
  assert.equal(got.text, 'Hello world')
  assert.equal(got.error, undefined)
})

test('with hold answer, an answer beyond the limit is sent as it arrives', async () => {
  const got = await relayed([answer('a'.repeat(600), 'b'.repeat(600), 'c')], { hold: 'answer', holdBytesMax: 1_000 })
  assert.equal(got.text.length, 1_201)
})

test('with hold none, an interrupted call ends in an error', async () => {
  const got = await relayed([CALL_CUT, CALL], { hold: 'none' })
  assert.equal(got.error?.code, 'model_stream_interrupted')
  assert.equal(got.requests.length, 1)
})

test('small events that are held cost about their bytes, and go out as they came', () => {
  const held = new HeldFrames()
  const read = { text: 'data: {}\n\n'.repeat(6_000), bytes: undefined }
  const source = (at: number) => ({ read, from: at * 10, to: at * 10 + 10, events: 1 })
  for (let reads = 0; reads < 20; reads++)
    for (let at = 0; at < 6_000; at++)
      held.add('lifecycle', { data: '{}', source: source(at) }, undefined, undefined, [])
  assert.ok(held.bytes <= 1.1 * 20 * read.text.length, String(held.bytes))
  const runs = held.takeAll()
  assert.equal(runs.map((run) => run.piece().toString()).join(''), read.text.repeat(20))
  assert.equal(
    runs.reduce((frames, run) => frames + run.frames().length, 0),
    120_000,
  )
})

test('what was held beyond the limit goes out by and by, as it came, and is whole at the end', async () => {
  const frames = Array.from({ length: 2_000 }, (_, index) => text(`${index} `))
  const sent = [role, ...frames, finish('stop'), done].map(String)
  const written: string[] = []
  const options = { hold: 'answer', holdBytesMax: 100_000, onWrite: (chunk: string) => written.push(chunk) } as const
  const got = await relayed([[head(), ...sent, lastChunk]], options)
  assert.equal(got.body, sent.join(''))
  const before = sent.join('').length - 100_000 // what came after the limit, and as much again, could go out before the end
  assert.ok((written[0] ?? '').length <= Math.max(70_000, before), String(written[0]?.length))
})

test('an answer that would be held beyond the memory of all requests ends with a named fault', async () => {
  const memory = new MemoryBudget(200_000).open()
  const long = answer(...Array.from({ length: 40 }, (_, index) => `${index} `.repeat(2_000)))
  const got = await relayed([long], { hold: 'answer', memory })
  assert.deepEqual([got.status, got.outcome.fault?.category, got.requests.length], [429, 'quota_exceeded', 1])
  assert.deepEqual((await relayed([long], { hold: 'tools', memory })).error, undefined)
})

const OTHERWISE: Play = [head(), role, text('Howdy'), reset]

test('with hold auto, every break heals if the request offers tools', async () => {
  const got = await relayed([OTHERWISE, CALL_CUT, GOOD], { hold: 'auto' })
  assert.equal(got.text, 'Hello world')
})

test('with hold auto, text goes out as it comes if the request offers no tools', async () => {
  const got = await relayed([OTHERWISE, GOOD], { hold: 'auto', body: { tools: [] }, canCut: true })
  assert.equal(got.text, 'Howdy')
  assert.deepEqual([got.isCut, got.isEnded, got.error], [true, false, undefined])
  assert.match(got.comments.at(-1) ?? '', /^breakfall ended model_stream_interrupted: ./)
})

test('with hold auto, text of a long answer goes out after a while, and its tool calls still wait', async () => {
  const seen: string[] = []
  const call = callStart('c1', 'bash', '{"command":"ls"}')
  const long: Play = [head(), role, text('Let me'), call, pause(100), reset]
  const got = await relayed([long, CALL], { hold: 'auto', holdMs: 20, onWrite: (chunk) => seen.push(chunk) })
  assert.match(seen[0] ?? '', /Let me/)
  assert.equal((seen[0] ?? '').includes('bash'), false)
  assert.equal(got.text, 'Let me')
  assert.deepEqual(got.calls, ['{"command":"ls"}'])
})

test('with hold auto, what a failed attempt left does not go out while the next one is awaited', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const written: (string | Buffer)[] = []
  const sink = {
    head: () => undefined,
    write: (chunk: string | Buffer) => written.push(chunk) > 0,
    end: () => undefined,
  }
  const client = new ClientStream(
    { api: 'openai-chat', json: { tools: TOOLS } },
    { ...sink, drained: () => Promise.resolve() },
    { hold: 'auto', holdMs: 20, holdBytesMax: 1_000, pingMs: 1_000, memory: unboundedShare() },
  )
  client.begin()
  client.take('content', { data: '{}' }, undefined, undefined, [{ kind: 'text', text: 'Howdy' }])
  client.failed()
  t.mock.timers.tick(20)
  assert.deepEqual([written, client.contentSent], [[], false])
  client.stop()
})

test('with hold auto, a wait that ends between two attempts doubles nothing', async () => {
  const cutOff: Play = [head(), role, text('Hello'), reset]
  const got = await relayed([cutOff, GOOD], { hold: 'auto', holdMs: 1, policy: { backoffMs: 30 }, dice: () => 1 })
  assert.deepEqual([got.text, got.error], ['Hello world', undefined])
})

test('an error that the upstream reported goes out unchanged if the answer cannot be healed', async () => {
  const error = { message: 'busy', type: 'server_error', param: null, code: null }
  const told: Play = [head(), role, text('Howdy'), frame({ error }), lastChunk]
  const got = await relayed([told, GOOD], { canCut: true })
  assert.deepEqual([got.text, got.error, got.isCut, got.isEnded], ['Howdy', error, false, true])
})

test('a client that could take a cut for a proper end gets the error in the API’s own terms, with one code', async () => {
  const early: Play = [head(), role, text('Howdy'), lastChunk]
  const silent: Play = [head(), role, text('Howdy'), silence]
  for (const broken of [OTHERWISE, early, silent]) {
    const got = await relayed([broken, GOOD], { policy: { livenessMs: 100 } })
    assert.deepEqual([got.error?.code, got.error?.type], ['model_stream_interrupted', 'server_error'])
    assert.equal(got.isEnded, true)
  }
})

test('an answer that takes long to begin has the headers of its server, and a server that is silent lends none', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const headers = (upstream: IncomingHttpHeaders | undefined): string | readonly string[] | undefined => {
    let sent: ReturnedHeaders = {}
    const sink = { write: () => true, end: () => undefined, drained: () => Promise.resolve() }
    const client = new ClientStream(
      { api: 'openai-chat', json: {} },
      { ...sink, head: (_status, fields) => (sent = fields) },
      { hold: 'auto', holdMs: 20, holdBytesMax: 1_000, pingMs: 1_000, memory: unboundedShare() },
    )
    client.begin()
    client.upstreamHead({ 'x-codex-turn-state': 'of a failed attempt' })
    client.failed()
    client.begin()
    if (upstream !== undefined) client.upstreamHead(upstream)
    t.mock.timers.tick(1_000)
    client.stop()
    return sent['x-codex-turn-state']
  }
  assert.deepEqual([headers({ 'x-codex-turn-state': 's' }), headers(undefined)], ['s', undefined])
})
