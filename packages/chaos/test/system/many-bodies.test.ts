/** Many random bodies pass unchanged, and parallel clients meet the same faults in any order. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { type FaultProxyOptions, startFaultProxy } from '../../src/index.ts'
import { sse, startUpstream, TEXT_EVENTS } from '../sse-upstream.ts'

async function proxyTo(t: TestContext, upstream: string, options: Partial<FaultProxyOptions> = {}) {
  const proxy = await startFaultProxy({ upstream, ...options })
  t.after(() => proxy.close())
  return proxy
}

test('any body in any chunks passes byte for byte, in both directions', async (t) => {
  // The upstream answers with the request's body, in the chunks that the request asks for.
  const upstream = await startUpstream((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const body = Buffer.concat(chunks)
      const size = Number(req.headers['x-piece'])
      const isStream = req.headers['x-stream'] === '1'
      res.writeHead(207, 'Odd Status', {
        'X-Case': 'Kept',
        'content-type': isStream ? 'text/event-stream' : 'application/octet-stream',
        ...(isStream ? {} : { 'content-length': body.length }),
      })
      for (let from = 0; from < body.length; from += size) res.write(body.subarray(from, from + size))
      res.end()
    })
  })
  t.after(() => upstream.close())
  const plain = await proxyTo(t, upstream.url)
  const slicedPlan = {
    toxics: [{ type: 'slicer', attributes: { average_size: 7, size_variation: 6, delay: 0 } }],
  } as const
  const sliced = await proxyTo(t, upstream.url, { plan: slicedPlan })
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 3_000 }),
      fc.integer({ min: 1, max: 900 }),
      fc.boolean(),
      fc.boolean(),
      async (body, piece, isStream, isSliced) => {
        const proxy = isSliced && body.length < 300 ? sliced : plain
        const answer = await fetch(`${proxy.url}/echo?x=%20y`, {
          method: 'POST',
          body,
          headers: { 'x-piece': String(piece), 'x-stream': isStream ? '1' : '0' },
        })
        assert.equal(answer.status, 207)
        // (undici keeps only the last part of a status text that comes in parts)
        if (proxy === plain) assert.equal(answer.statusText, 'Odd Status')
        assert.equal(answer.headers.get('x-case'), 'Kept')
        assert.deepEqual(new Uint8Array(await answer.arrayBuffer()), body)
      },
    ),
    { numRuns: 60 },
  )
})

test('by fingerprint, parallel clients in any order meet the same faults', async (t) => {
  const upstream = await startUpstream(sse(TEXT_EVENTS))
  t.after(() => upstream.close())
  const faults = 'faults=reset_before_headers+status+reset+early_end+malformed_line'
  const meet = async (bodies: readonly number[]): Promise<string[]> => {
    const proxy = await startFaultProxy({ upstream: upstream.url, plan: `seed=5,rate=0.4,by=fingerprint,${faults}` })
    await Promise.all(
      bodies.map(async (n) => {
        const answer = await fetch(proxy.url, { method: 'POST', body: `request ${n}` }).catch(() => undefined)
        await answer?.text().catch(() => 'cut')
      }),
    )
    await proxy.close()
    return proxy.injected.map(({ fingerprint, fault }) => `${fingerprint} ${JSON.stringify(fault)}`).sort()
  }
  const bodies = Array.from({ length: 120 }, (_, n) => n)
  const met = await meet(bodies)
  assert.ok(met.length > 20)
  assert.deepEqual(await meet(bodies.toReversed()), met)
})
