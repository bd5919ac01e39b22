/** Our own signal decides what is a cancel, never an error's name or text. Over real sockets. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { classify } from '@breakfall/faults'
import { call, chunk, CHUNKED, EVENT, serve } from './broken-servers.ts'

/** Aborts before the headers, or after the first bytes of the body. */
async function aborted(
  where: 'headers' | 'stream',
  reason?: unknown,
): Promise<{ thrown: unknown; signal: AbortSignal }> {
  const abort = new AbortController()
  const end = (): void => (reason === undefined ? abort.abort() : abort.abort(reason))
  await using server = await serve((socket) => {
    if (where === 'headers') end()
    else socket.write(CHUNKED + chunk(EVENT))
  })
  try {
    const response = await fetch(server.url, { signal: abort.signal })
    for await (const bytes of response.body ?? []) if (bytes !== undefined) end()
  } catch (thrown) {
    return { thrown, signal: abort.signal }
  }
  throw new Error('the abort did not arrive')
}

const REASONS_TO_ABORT: readonly [string, unknown, RegExp][] = [
  ['no reason', undefined, /This operation was aborted/],
  ['an Error', Object.assign(new Error('the user has left'), { code: 'ECONNRESET' }), /the user has left/],
  ['a string', 'enough', /enough/],
  ['a foreign TypeError', new TypeError('fetch failed'), /fetch failed/],
]

for (const where of ['headers', 'stream'] as const) {
  for (const [name, reason, raw] of REASONS_TO_ABORT) {
    test(`our abort with ${name} during ${where} is a cancel, and only because it is our signal`, async (t: TestContext) => {
      const { thrown, signal } = await aborted(where, reason)
      for (const boundary of ['model', 'runner'] as const) {
        const fault = classify(thrown, { boundary, phase: where, signal })
        t.assert.equal(fault.category, 'cancelled')
        t.assert.match(fault.errorRaw, raw)
        t.assert.equal(fault.cause, thrown)
        t.assert.notEqual(classify(thrown, { boundary, phase: where }).category, 'cancelled', 'not our signal')
        const other = new AbortController().signal
        t.assert.notEqual(classify(thrown, { boundary, phase: where, signal: other }).category, 'cancelled')
      }
    })
  }
}

test('our deadline is a deadline, even through AbortSignal.any', async () => {
  await using server = await serve(() => {
    // Never answers.
  })
  for (const signal of [
    AbortSignal.timeout(20),
    AbortSignal.any([AbortSignal.timeout(20), new AbortController().signal]),
  ]) {
    const { thrown } = await call(server.url, { signal })
    const fault = classify(thrown, { boundary: 'model', phase: 'headers', signal })
    assert.equal(fault.category, 'deadline_exceeded')
    assert.match(fault.errorRaw, /aborted due to timeout/)
    assert.equal(classify(thrown, { boundary: 'model', phase: 'headers' }).category, 'model_stream_stalled', 'not ours')
  }
})

test('a limit that aborts with a fault ends the call with that fault, plus the ids and the phase', async () => {
  const stalled = classify(new Error('silence'), { boundary: 'model' }).with({ error: 'nothing for 120 s' })
  const { thrown, signal } = await aborted('stream', stalled)
  const fault = classify(thrown, { boundary: 'model', phase: 'stream', signal, turnId: 't1' })
  assert.equal(fault.error, 'nothing for 120 s')
  assert.equal(fault.report.turnId, 't1')
  assert.equal(fault.report.phase, 'stream')
})

test('a provider’s AbortError without our signal is a broken stream, so the run is not lost', () => {
  const theirs = new DOMException('This operation was aborted', 'AbortError')
  assert.equal(classify(theirs, { boundary: 'model', phase: 'stream' }).category, 'model_stream_interrupted')
})
