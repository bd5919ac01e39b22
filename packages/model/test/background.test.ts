/** The library asks for answers in the background, if it is told to, and reads on after a break instead of asking again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AnswerRequest, streamAnswer } from '../src/index.ts'
import { type Script, startModelServer } from '../../../test/kit/model-server.ts'
import { cut, head, json, silence, stream } from '../../../test/kit/plays.ts'
import {
  callItem,
  failedEvent,
  messageItem,
  responseFrames,
  upToDelta,
  wholeResponse,
} from '../../../test/kit/responses-frames.ts'
import { play, type Played } from './play.ts'

const ASKED: Partial<AnswerRequest> = { api: 'openai-responses', background: true }
const LONG = responseFrames([messageItem(['a', 'b', 'c', 'd'])])
const CALL = responseFrames([callItem('bash', '{"command":"ls"}')])
const callsOf = ({ requests }: Played): string[] => requests.map(({ method, path }) => `${method} ${path}`)

/** Breaks the first connection after `first` frames, and sends the rest to whoever asks for it. */
const resumable =
  (frames: readonly string[], first: number): Script =>
  ({ method, path }) =>
    method === 'POST'
      ? cut(...frames.slice(0, first))
      : stream(...frames.slice(Number(/starting_after=(\d+)/.exec(path)?.[1]) + 1))

test('a broken answer is read on after its last event: asked for once, no text discarded, one attempt', async () => {
  const got = await play(resumable(LONG, 6), ASKED)
  assert.deepEqual([got.text, got.failed, got.done?.proven], ['abcd', [], true])
  assert.deepEqual(callsOf(got), ['POST /v1/responses', 'GET /v1/responses/resp_1?stream=true&starting_after=5'])
  assert.deepEqual([got.requests[0]?.body.background, got.requests[0]?.body.store], [true, true])
  assert.ok(!got.types.includes('part-discarded'))
  assert.deepEqual(
    got.done?.ledger.map(({ reattached }) => reattached),
    [1],
  )
})

test('a break inside the arguments of a call loses nothing either', async () => {
  const got = await play(resumable(CALL, 4), ASKED)
  assert.deepEqual(
    got.calls.map(({ tool, arguments: args }) => [tool, args]),
    [['bash', { command: 'ls' }]],
  )
  assert.equal(got.requests.filter(({ method }) => method === 'POST').length, 1)
})

test('an answer that is too old to stream is finished from the final object', async () => {
  const old = { error: { message: 'Response can no longer be streamed because it is more than 5 minutes old.' } }
  const got = await play(({ method, path }) => {
    if (method === 'POST') return cut(...upToDelta(LONG, 2))
    return path.includes('stream=true') ? json(400, old) : json(200, wholeResponse([messageItem(['a', 'b', 'c', 'd'])]))
  }, ASKED)
  assert.deepEqual([got.text, got.failed.length, got.done?.proven], ['abcd', 0, true])
})

test('an answer that the provider lost is asked for again, and what was shown of it is discarded', async () => {
  let posts = 0
  const got = await play(({ method, path }) => {
    if (method === 'GET' || path.endsWith('/cancel')) return json(404, { error: { message: 'not found' } })
    return ++posts === 1 ? cut(...upToDelta(LONG, 2)) : stream(...LONG)
  }, ASKED)
  assert.deepEqual([got.text, posts, got.failed.length], ['abcd', 2, 1])
})

test('a reader that only waits, as vLLM’s does after an error, is given up, and the answer is asked for again', async () => {
  let posts = 0
  const waiting: Script = ({ method, path }) => {
    if (path.endsWith('/cancel')) return json(200, {})
    if (method === 'GET') return [head(), ': keep-alive\n\n', silence]
    return ++posts === 1 ? cut(...upToDelta(LONG, 2)) : stream(...LONG)
  }
  const got = await play(waiting, ASKED, { policy: { progressMs: 200 } })
  assert.deepEqual([got.text, posts, got.failed.length], ['abcd', 2, 1])
  assert.equal(callsOf(got)[1], 'GET /v1/responses/resp_1?stream=true&starting_after=5')
})

test('an answer that the provider gave up is not read on', async () => {
  let posts = 0
  const got = await play(({ method }) => {
    assert.equal(method, 'POST')
    return ++posts === 1 ? stream(...LONG.slice(0, 5), failedEvent('server_error', 'broken')) : stream(...LONG)
  }, ASKED)
  assert.deepEqual([got.text, posts], ['abcd', 2])
})

test('whoever stops listening cancels the answer at the provider, once', async (t) => {
  const gone = new AbortController()
  const cancelled = Promise.withResolvers<void>()
  const model = await startModelServer(({ path }) => {
    if (!path.endsWith('/cancel')) return [head(), ...upToDelta(LONG, 2), silence]
    cancelled.resolve()
    return json(200, {})
  })
  t.after(() => model.close())
  const question = { baseUrl: model.url, model: 'fake-1', messages: [{ role: 'user', content: 'hi' }] } as const
  for await (const { type } of streamAnswer({ ...question, ...ASKED }, { signal: gone.signal }))
    if (type === 'text-delta') gone.abort()
  await cancelled.promise
  assert.deepEqual(
    model.requests.map(({ method, path }) => `${method} ${path}`),
    ['POST /v1/responses', 'POST /v1/responses/resp_1/cancel'],
  )
})

test('nothing is stored at a provider unless someone asked for it, nor where the API has no such thing', async () => {
  const plain = await play([stream(...LONG)], { api: 'openai-responses' })
  assert.deepEqual([plain.requests[0]?.body.background, plain.requests[0]?.body.store], [undefined, false])
  const unable = await play([stream(...LONG)], { ...ASKED, profile: 'ollama' })
  assert.deepEqual([unable.requests[0]?.body.background, unable.requests[0]?.body.store], [undefined, false])
})
