/** `resilientFetch` in place of `fetch`: the same inputs and outputs, and answers that survive failures. */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { describe, test } from 'node:test'
import { resilientFetch } from '@breakfall/model'
import { shared } from '../shared.ts'
import { type Json } from '../../test/kit/json.ts'
import { startModelServer } from '../../test/kit/model-server.ts'
import { choice, done, finish, role, text, answerFrames } from '../../test/kit/openai-frames.ts'
import { bytes, cut, head, json, reset, silence, stall, stream } from '../../test/kit/plays.ts'
import { framesIn } from '../../test/kit/sse.ts'
import { assembledChat } from './assembled.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const upstream = await shared(startModelServer())

const user = [{ role: 'user' as const, content: 'go' }]
const policy = { attemptsMax: 3, backoffMs: 1, livenessMs: 1_000 }

describe('resilientFetch is a fetch', { ...LIMIT, concurrency: true }, () => {
  const healing = resilientFetch({ policy } as Json)
  const body = (name: string, more: object = {}): string =>
    JSON.stringify({ model: name, stream: true, messages: user, ...more })
  const chat = (): string => `${upstream.url}/chat/completions`
  const forms: Record<string, (name: string) => Parameters<typeof fetch>> = {
    'a string and options': (name) => [chat(), { method: 'POST', body: body(name) }],
    'a URL': (name) => [new URL(chat()), { method: 'POST', body: body(name) }],
    'a Request': (name) => [new Request(chat(), { method: 'POST', body: body(name) })],
    'a Request and options over it': (name) => [
      new Request(chat(), { method: 'POST', body: 'old' }),
      { body: body(name) },
    ],
    'a Blob as body': (name) => [chat(), { method: 'POST', body: new Blob([body(name)]) }],
    'bytes as body': (name) => [chat(), { method: 'POST', body: new TextEncoder().encode(body(name)) }],
    'an ArrayBuffer as body': (name) => [chat(), { method: 'POST', body: new TextEncoder().encode(body(name)).buffer }],
    'a stream as body': (name) => [
      chat(),
      { method: 'POST', body: new Blob([body(name)]).stream(), duplex: 'half' } as RequestInit,
    ],
    'the method in small letters': (name) => [chat(), { method: 'post', body: body(name) }],
  }
  for (const [what, make] of Object.entries(forms))
    test(`${what}: recovered`, async () => {
      const name = upstream.plays(reset, cut(role), stream(...answerFrames('All of it.')))
      const response = await healing(...make(name))
      assert.equal(response.status, 200)
      assert.equal(assembledChat(framesIn(await response.text()).frames).content, 'All of it.')
      assert.equal(upstream.received(name).length, 3)
      assert.equal(upstream.received(name)[2]?.text, body(name))
    })
  test('the response is a real Response: url, ok, headers, clone, body used once', async () => {
    const name = upstream.plays([head(200, { 'x-odd': 'kept' }), [...answerFrames('hi')], bytes('0\r\n\r\n')])
    const response = await healing(chat(), { method: 'POST', body: body(name) })
    assert.ok(response instanceof Response && response.ok)
    assert.equal(response.headers.get('x-odd'), 'kept')
    const twin = response.clone()
    assert.equal(await twin.text(), await response.text())
    assert.equal(response.bodyUsed, true)
    await assert.rejects(response.text(), TypeError)
  })
  test('an abort rejects with an AbortError, before and during the answer', async () => {
    await assert.rejects(healing(chat(), { method: 'POST', body: body('x'), signal: AbortSignal.abort() }), {
      name: 'AbortError',
    })
    for (const play of [silence, stall(role, text('One'))]) {
      const control = new AbortController()
      const name = upstream.plays(play)
      void upstream.arrived(name).then(() => setTimeout(() => control.abort(), 30))
      await assert.rejects(
        async () => {
          const response = await resilientFetch({ policy: { ...policy, livenessMs: 60_000 } } as Json)(chat(), {
            method: 'POST',
            body: body(name),
            signal: control.signal,
          })
          await response.text()
        },
        { name: 'AbortError' },
      )
      await upstream.received(name)[0]?.gone
    }
  })
  test('a signal inside a Request counts', async () => {
    const control = new AbortController()
    const name = upstream.plays(silence)
    void upstream.arrived(name).then(() => control.abort())
    await assert.rejects(healing(new Request(chat(), { method: 'POST', body: body(name), signal: control.signal })), {
      name: 'AbortError',
    })
  })
  test('cancelling the reader ends the upstream request', async () => {
    const name = upstream.plays(stall(role, text('One')))
    const response = await resilientFetch({ policy: { ...policy, livenessMs: 60_000 } } as Json)(chat(), {
      method: 'POST',
      body: body(name),
    })
    await response.body?.cancel()
    await upstream.received(name)[0]?.gone
  })
  test('any other request is a plain fetch: sent once, unchanged', async () => {
    const name = upstream.plays(json(503, 'plain'), json(200, 'again'))
    const response = await healing(`${upstream.url}/files/${name}`)
    assert.deepEqual([response.status, await response.text(), upstream.received(name).length], [503, 'plain', 1])
    const form = new FormData()
    form.append('file', new Blob(['x']), 'a.txt')
    const upload = upstream.plays(json(200, { ok: true }))
    assert.deepEqual(await (await healing(`${upstream.url}/files/${upload}`, { method: 'POST', body: form })).json(), {
      ok: true,
    })
    assert.match(String(upstream.received(upload)[0]?.headers['content-type']), /^multipart\/form-data; boundary=/)
    await assert.rejects(healing('http://127.0.0.1:1/elsewhere'), TypeError)
    await assert.rejects(healing('not a url'), TypeError)
    assert.equal(await (await healing('data:text/plain,hi')).text(), 'hi')
  })
  test('a chat call with a form, no body or invalid JSON is forwarded', async () => {
    const name = upstream.plays(json(400, 'no'), json(400, 'no'))
    assert.equal((await healing(`${chat()}?${name}`, { method: 'POST', body: 'not json' })).status, 400)
    assert.equal((await healing(`${chat()}?${name}`, { method: 'POST' })).status, 400)
  })
  test('with no attempts left, no SDK retries the status', async () => {
    const name = upstream.plays(reset, reset, reset)
    const response = await healing(chat(), { method: 'POST', body: body(name) })
    assert.equal(response.status, 502)
    assert.equal(response.headers.get('x-should-retry'), 'false')
    const error = (await response.json()) as Json
    assert.equal(error.error.code, response.headers.get('x-breakfall-category'))
  })
  test('a status or a header that a Response cannot have does not hang', async () => {
    const odd = [
      json(999, 'odd'),
      [head(200, { 'x-odd': '\u4e2d\u6587' }), [...answerFrames('hi')], bytes('0\r\n\r\n')],
      [bytes('HTTP/1.1 204 No Content\r\n\r\n')],
    ]
    for (const play of odd) {
      const name = upstream.plays(play, play, play)
      const response = await healing(chat(), { method: 'POST', body: body(name), signal: AbortSignal.timeout(30_000) })
      await response.text()
      assert.ok(response.status >= 200 && response.status < 600)
    }
  })
  test('a long-lived signal keeps nothing of finished calls', async () => {
    const { signal } = new AbortController()
    for (let round = 0; round < 5; round++) {
      const name = upstream.plays(stream(...answerFrames('hi')))
      await (await healing(chat(), { method: 'POST', body: body(name), signal })).text()
    }
    await new Promise((resolve) => setImmediate(resolve)) // the last call cleans up after its answer was read
    assert.equal(getEventListeners(signal, 'abort').length, 0)
  })
  test('an invalid policy is refused immediately, by name', () => {
    assert.throws(() => resilientFetch({ policy: { attemptsMax: Number.NaN } }), /policy\.attemptsMax/)
  })
  test('a choice with only null content passes once it came twice', async () => {
    const empty = stream(choice({ role: 'assistant', content: null }), finish(), done)
    const name = upstream.plays(empty, empty)
    assert.equal((await healing(chat(), { method: 'POST', body: body(name) })).status, 200)
  })
})
