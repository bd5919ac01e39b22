import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { test } from 'node:test'
import { POLICY_DEFAULTS } from '@breakfall/faults'
import { firstListedModel } from '../src/model/list.ts'

const policy = { ...POLICY_DEFAULTS, attemptsMax: 3, backoffMs: 1 }

async function against<T>(listener: RequestListener, use: (baseUrl: string) => Promise<T>): Promise<T> {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const address = server.address()
    assert.ok(typeof address === 'object' && address !== null)
    return await use(`http://127.0.0.1:${address.port}/v1`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

test('a reset connection and an overloaded server are retried until the first model is known', async () => {
  let asked = 0
  const name = await against(
    (req, res) => {
      asked++
      if (asked === 1) req.socket.resetAndDestroy()
      else if (asked === 2) res.writeHead(503).end()
      else res.end(JSON.stringify({ data: [{ id: 'tiny' }, { id: 'big' }] }))
    },
    (baseUrl) => firstListedModel({ baseUrl, apiKey: undefined, apiKeyVariable: undefined }, policy),
  )
  assert.equal(name, 'tiny')
  assert.equal(asked, 3)
})

test('a rejected key is not retried, and the error names its variable', async () => {
  let asked = 0
  const answer: RequestListener = (req, res) => {
    asked++
    assert.equal(req.headers.authorization, 'Bearer wrong')
    res.writeHead(401).end(JSON.stringify({ error: { message: 'Incorrect API key', code: 'invalid_api_key' } }))
  }
  await against(answer, (baseUrl) =>
    assert.rejects(firstListedModel({ baseUrl, apiKey: 'wrong', apiKeyVariable: 'MY_KEY' }, policy), {
      category: 'model_auth_failed',
      error: /rejected the key .*\. Set a valid key in MY_KEY/,
    }),
  )
  assert.equal(asked, 1)
})

test('a missing server is unreachable; only a server that answers without a list has no models', async () => {
  const gone = await against(
    () => undefined,
    (baseUrl) => Promise.resolve(baseUrl),
  )
  await assert.rejects(firstListedModel({ baseUrl: gone, apiKey: undefined, apiKeyVariable: undefined }, policy), {
    category: 'model_unreachable',
  })
  for (const [status, body] of [
    [404, 'not here'],
    [200, '{"data":[]}'],
    [200, 'null'],
  ] as const) {
    const name = await against(
      (_, res) => res.writeHead(status).end(body),
      (baseUrl) => firstListedModel({ baseUrl, apiKey: undefined, apiKeyVariable: undefined }, policy),
    )
    assert.equal(name, undefined)
  }
})
