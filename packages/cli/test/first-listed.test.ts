import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { POLICY_DEFAULTS } from '@breakfall/faults'
import { firstModel } from '../src/model/first-listed.ts'

const policy = { ...POLICY_DEFAULTS, attemptsMax: 3, backoffMs: 1 }

async function against<T>(listener: RequestListener, use: (baseUrl: string) => Promise<T>): Promise<T> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

test('a connection that is reset and an overloaded server are asked again, and the first model is taken', async () => {
  let asked = 0
  const name = await against(
    (req, res) => {
      asked++
      if (asked === 1) req.socket.resetAndDestroy()
      else if (asked === 2) res.writeHead(503).end()
      else res.end(JSON.stringify({ data: [{ id: 'tiny' }, { id: 'big' }] }))
    },
    (baseUrl) => firstModel({ baseUrl, apiKey: undefined }, policy),
  )
  assert.equal(name, 'tiny')
  assert.equal(asked, 3)
})

test('a refused key is a refused key, after one request', async () => {
  let asked = 0
  const answer: RequestListener = (req, res) => {
    asked++
    assert.equal(req.headers.authorization, 'Bearer wrong')
    res.writeHead(401).end(JSON.stringify({ error: { message: 'Incorrect API key', code: 'invalid_api_key' } }))
  }
  await against(answer, (baseUrl) =>
    assert.rejects(firstModel({ baseUrl, apiKey: 'wrong' }, policy), {
      category: 'model_auth_failed',
      error: /refused the key/,
    }),
  )
  assert.equal(asked, 1)
})

test('nobody at the address is unreachable, and only a server that answers without a list has none', async () => {
  const gone = await against(
    () => undefined,
    (baseUrl) => Promise.resolve(baseUrl),
  )
  await assert.rejects(firstModel({ baseUrl: gone, apiKey: undefined }, policy), { category: 'model_unreachable' })
  for (const [status, body] of [
    [404, 'not here'],
    [200, '{"data":[]}'],
    [200, 'null'],
  ] as const) {
    const name = await against(
      (_, res) => res.writeHead(status).end(body),
      (baseUrl) => firstModel({ baseUrl, apiKey: undefined }, policy),
    )
    assert.equal(name, undefined)
  }
})
