/** Which upstream gets the keys of the client. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answer } from '../../../test/kit/openai-frames.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { resilientFetch } from '../src/index.ts'
import { isSameOrigin, upstreamHeaders, upstreamSearch } from '../src/internal.ts'

test('another scheme, host or port is another origin', () => {
  const own = 'https://api.example/v1'
  assert.equal(isSameOrigin(own, 'https://API.example:443/other/v1'), true)
  for (const other of [
    'http://api.example/v1',
    'https://api.example:8443/v1',
    'https://api.example.evil/v1',
    'nonsense',
  ])
    assert.equal(isSameOrigin(own, other), false, other)
})

test('another origin gets only headers and query fields that hold no key, and what its target sets', () => {
  const sent = { 'X-New-Vendor-Key': 's', 'Content-Type': 'application/json', 'x-stainless-lang': 'js', connection: 'x-stainless-os', 'x-stainless-os': 'l' } // prettier-ignore
  const target = { withoutKeys: true, headers: { Authorization: 'Bearer own' } }
  const kept = { 'content-type': 'application/json', 'x-stainless-lang': 'js', authorization: 'Bearer own', 'accept-encoding': 'identity' } // prettier-ignore
  assert.deepEqual(upstreamHeaders(sent, target), kept)
  assert.equal(upstreamHeaders(sent, {})['x-new-vendor-key'], 's')
  const search = '?alt=sse&key=s&sig=s&access_token=s&%6bey=s&api-version=2'
  assert.equal(upstreamSearch(search, target), '?alt=sse&api-version=2')
  assert.equal(upstreamSearch('?key=s', target), '')
  assert.equal(upstreamSearch(search, {}), search)
})

test('resilientFetch sends no key to a fallback on another origin, unless that says so itself', async (t) => {
  const other = await startModelServer([answer('other')])
  t.after(() => other.close())
  const headers = { authorization: 'Bearer secret', 'x-portkey-api-key': 'secret', 'content-type': 'application/json' }
  const body = JSON.stringify({ model: 'm', stream: true, messages: [] })
  for (const [withoutKeys, isKept] of [
    [undefined, false],
    [false, true],
  ] as const) {
    const fetch = resilientFetch({
      fallback: [{ baseUrl: other.url, withoutKeys }],
      policy: { attemptsMax: 1, patienceMs: 0 },
    })
    const url = 'http://127.0.0.1:1/v1/chat/completions?key=secret'
    assert.match(await (await fetch(url, { method: 'POST', headers, body })).text(), /other/)
    const { path, headers: got } = other.requests.at(-1) ?? {}
    assert.equal(JSON.stringify([path, got]).includes('secret'), isKept)
  }
})
