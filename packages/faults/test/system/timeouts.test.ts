/** Peers that fall silent. undici checks its limits about once a second, so the tests run concurrently. */
import { describe, it } from 'node:test'
import {
  call,
  check,
  CHUNKED,
  chunk,
  dispatcher,
  EVENT,
  type Expected,
  say,
  type Script,
  serve,
  through,
} from '../broken-servers.ts'

const silent: Script = () => {
  // Silence is its failure.
}

const STALLED = { model: 'model_stream_stalled', runner: 'runner_unreachable' } as const

const CASES: readonly {
  readonly name: string
  readonly scheme: 'http' | 'https'
  readonly script: Script
  readonly pool: Parameters<typeof dispatcher>[0]
  readonly expected: Expected
}[] = [
  {
    name: 'no headers in time',
    scheme: 'http',
    script: silent,
    pool: { headersTimeout: 50 },
    expected: { ...STALLED, phase: 'headers', raw: /UND_ERR_HEADERS_TIMEOUT/ },
  },
  {
    name: 'a body that goes silent',
    scheme: 'http',
    script: say(CHUNKED + chunk(EVENT)),
    pool: { bodyTimeout: 50 },
    expected: { ...STALLED, phase: 'stream', raw: /UND_ERR_BODY_TIMEOUT/ },
  },
  {
    name: 'an unanswered handshake is a connection that took too long',
    scheme: 'https',
    script: silent,
    pool: { connect: { timeout: 50 } },
    expected: {
      model: 'model_unreachable',
      runner: 'runner_unreachable',
      phase: 'connect',
      raw: /UND_ERR_CONNECT_TIMEOUT/,
    },
  },
]

describe('a peer that falls silent', { concurrency: true }, () => {
  for (const { name, scheme, script, pool: options, expected } of CASES) {
    it(name, async () => {
      await using server = await serve(script, scheme === 'https')
      const pool = await dispatcher(options)
      const { thrown, phase } = await call(`${scheme}://127.0.0.1:${server.port}/`, through(pool))
      check(thrown, phase, expected)
      await pool.destroy()
    })
  }
})
