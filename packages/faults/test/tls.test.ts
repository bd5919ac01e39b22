/** TLS failures, with real handshakes on loopback. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import test from 'node:test'
import tls from 'node:tls'
import { classify } from '@breakfall/faults'
import { call, check, dispatcher, reset, say, sayThenClose, serve, through } from './broken-servers.ts'

// Made only for these tests, valid until 2126, for the name elsewhere.test. The key is in the repository and secures nothing.
const cert = readFileSync(new URL('tls/test-only-cert.pem', import.meta.url))
const key = readFileSync(new URL('tls/test-only-key.pem', import.meta.url))

async function secureServer(): Promise<{ port: number; [Symbol.asyncDispose]: () => Promise<void> }> {
  const server = tls.createServer({ cert, key }, (socket) => {
    socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
  })
  server.on('tlsClientError', () => {
    // The client's refusal is what is tested.
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.close()
      await once(server, 'close')
    },
  }
}

test('a self-signed certificate is a configuration error, recognised by its code', async () => {
  await using server = await secureServer()
  const { thrown } = await call(`https://127.0.0.1:${server.port}/`)
  check(thrown, 'headers', {
    model: 'model_endpoint_invalid',
    runner: 'runner_protocol_error',
    phase: 'headers',
    raw: /DEPTH_ZERO_SELF_SIGNED_CERT/,
  })
})

test('a certificate for another host is a configuration error', async () => {
  await using server = await secureServer()
  const pool = await dispatcher({ connect: { ca: cert } })
  const { thrown } = await call(`https://127.0.0.1:${server.port}/`, through(pool))
  check(thrown, 'headers', {
    model: 'model_endpoint_invalid',
    runner: 'runner_protocol_error',
    phase: 'headers',
    raw: /ERR_TLS_CERT_ALTNAME_INVALID/,
  })
  await pool.destroy()
})

test('https to a plain HTTP server is a configuration error', async () => {
  await using server = await serve(say('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'), true)
  const { thrown } = await call(`https://127.0.0.1:${server.port}/`)
  check(thrown, 'headers', {
    model: 'model_endpoint_invalid',
    runner: 'runner_protocol_error',
    phase: 'headers',
    raw: /ERR_SSL_WRONG_VERSION_NUMBER|EPROTO/,
  })
})

test('a reset in the handshake is transient', async () => {
  await using server = await serve(reset, true)
  const { thrown } = await call(`https://127.0.0.1:${server.port}/`)
  check(thrown, 'headers', {
    model: 'model_stream_interrupted',
    runner: 'runner_unreachable',
    phase: 'headers',
    raw: /ECONNRESET/,
  })
})

test('a close in the handshake is transient, and is known to come before the connection', async () => {
  await using server = await serve(sayThenClose(''), true)
  const { thrown } = await call(`https://127.0.0.1:${server.port}/`)
  check(thrown, 'headers', {
    model: 'model_unreachable',
    runner: 'runner_unreachable',
    phase: 'connect',
    raw: /before secure TLS connection/,
  })
})

test('a record that cannot be decrypted in mid-stream is a broken stream, not a wrong address', () => {
  const cause = Object.assign(new Error('decryption failed or bad record mac'), {
    code: 'ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC',
  })
  const thrown = new TypeError('terminated', { cause })
  assert.equal(classify(thrown, { boundary: 'model', phase: 'stream' }).category, 'model_stream_interrupted')
  assert.equal(classify(thrown, { boundary: 'runner', phase: 'stream' }).category, 'runner_unreachable')
})
