/** The behaviour that the contract started from: three categories at the runner, their event, and four retry policies. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { closedPort } from '../../../test/kit/tcp-server.ts'
import { classify, decide, Fault, type FaultCategory, FAULTS, POLICY_DEFAULTS } from '@breakfall/faults'
import { call, reset, serve } from './broken-servers.ts'
import { answer } from './situation.ts'

/** A turn's error event is the report with a type. */
const turnError = (fault: Fault) => ({ type: 'turn-error', ...fault.with({ turnId: 't1' }).report })

test('runner_unreachable: tcp connect error gives a stable category, a hint to retry, and the raw error', () => {
  for (const raw of ['transport error: tcp connect error', 'tcp connect error: Connection refused (os error 111)']) {
    const { type, category, error, errorRaw, turnId } = turnError(classify(new Error(raw), { boundary: 'runner' }))
    assert.deepEqual(
      { type, category, errorRaw, turnId },
      { type: 'turn-error', category: 'runner_unreachable', errorRaw: raw, turnId: 't1' },
    )
    assert.match(error, /^the tool runner is not reachable yet — .*retry in a few seconds\.$/)
  }
})

test('runner_unreachable: the same event from a closed port', async () => {
  const port = await closedPort()
  const { thrown } = await call(`http://127.0.0.1:${port}/`)
  const event = turnError(classify(thrown, { boundary: 'runner' }))
  const happened = `the tool runner is not reachable yet — nothing answers at 127.0.0.1:${port}, so it may still be waking up or may have moved`
  assert.deepEqual(event, {
    type: 'turn-error',
    category: 'runner_unreachable',
    class: 'transient',
    boundary: 'runner',
    phase: 'connect',
    error: `${happened}; retry in a few seconds.`,
    message: { happened, action: 'retry in a few seconds.' },
    errorRaw: `connect ECONNREFUSED 127.0.0.1:${port}`,
    next: 'resolve',
    sideEffects: 'none',
    diagnostics: [],
    turnId: 't1',
    at: event.at,
  })
  assert.equal(new Date(event.at).toISOString(), event.at)
})

test('cancelled: a separate category, decided by our signal', () => {
  const event = turnError(
    classify(new Error('cancelled'), { boundary: 'runner', signal: AbortSignal.abort('cancelled') }),
  )
  assert.equal(event.category, 'cancelled')
  assert.equal(event.class, 'cancelled')
  assert.equal(event.errorRaw, 'cancelled')
})

test('other: anything else, with the whole chain in the raw error', () => {
  const chain = new Error('tool failed', { cause: new Error('step two', { cause: new Error('division by cucumber') }) })
  const event = turnError(classify(chain, { boundary: 'runner' }))
  assert.equal(event.category, 'other')
  assert.equal(event.errorRaw, 'tool failed: step two: division by cucumber')
})

/** Outside a daemon nothing can park. */
const ALONE = { parking: 'impossible' } as const

test('a reset before the first byte is retried up to the bound, and not beyond it', async () => {
  await using server = await serve(reset)
  const actions: string[] = []
  let waitedMs = 0
  for (let attempt = 1; attempt <= 10; attempt += 1) {
    const { thrown, phase } = await call(server.url)
    const fault = classify(thrown, { boundary: 'model', phase })
    const decision = decide(
      fault.report,
      answer({ ...ALONE, attempt, failures: attempt, waitedMs }),
      POLICY_DEFAULTS,
      0,
    )
    actions.push(decision.action)
    if (decision.action === 'stop') {
      assert.equal(decision.because, 'attempts_spent')
      break
    }
    assert.ok('delayMs' in decision)
    waitedMs += decision.delayMs
  }
  assert.deepEqual(actions, ['retry', 'retry', 'retry', 'retry', 'retry', 'stop'])
})

test('a reset after a cancel is not retried', async () => {
  await using server = await serve(reset)
  const { thrown, phase } = await call(server.url)
  const fault = classify(thrown, { boundary: 'model', phase, signal: AbortSignal.abort() })
  assert.deepEqual(decide(fault.report, answer(ALONE), POLICY_DEFAULTS, 0), { action: 'stop', because: 'cancelled' })
})

test('ECONNRESET, EPIPE and an unexpected EOF are transport errors and are retried, however they are wrapped', () => {
  const coded = (code: string) => Object.assign(new Error(`read ${code}`), { code })
  const errors = [
    coded('ECONNRESET'),
    coded('EPIPE'),
    new Error('read SSE stream: unexpected EOF'),
    new Error('read tcp 10.0.0.5:51334->10.0.0.9:443: read: connection reset by peer'),
    new Error('wrapped', { cause: coded('ECONNRESET') }),
    new Error('wrapped', { cause: new Error('again', { cause: coded('EPIPE') }) }),
  ]
  for (const error of errors) {
    const fault = classify(error, { boundary: 'model', phase: 'stream' })
    assert.equal(fault.category, 'model_stream_interrupted')
    assert.equal(decide(fault.report, answer(ALONE), POLICY_DEFAULTS, 0).action, 'retry')
  }
})

test('an API error of the 4xx kind is never retried; 408, 409, 429 and 5xx are', () => {
  for (let status = 400; status < 600; status += 1) {
    for (const body of [
      undefined,
      { error: { type: 'api_error', message: 'no' } },
      { error: { code: 'server_error' } },
    ]) {
      const fault = classify(new Error('refused'), { boundary: 'model', response: { status, body } })
      const { action } = decide(fault.report, answer(ALONE), POLICY_DEFAULTS, 0)
      const transient = status >= 500 || status === 408 || status === 409 || status === 429
      const expected = transient ? 'retry' : status === 413 ? 'compact' : 'stop'
      assert.equal(action, expected, `${status}: ${fault.category}`)
    }
  }
})

test('truncated tool arguments are requested again', () => {
  const fault = new Fault('tool_call_truncated', { facts: { name: 'bash' } })
  assert.equal(decide(fault.report, answer(ALONE), POLICY_DEFAULTS, 0).action, 'retry')
})

test('an exec on a box that cannot take it is a typed 4xx, never a 500', () => {
  const statuses: Partial<Record<FaultCategory, number>> = {
    box_not_found: 404,
    exec_not_found: 404,
    box_stopped: 409,
    box_invalid_state: 409,
    spawn_failed: 422,
    quota_exceeded: 429,
  }
  for (const [category, status] of Object.entries(statuses)) {
    assert.equal(FAULTS[category as FaultCategory].http, status)
    assert.equal(FAULTS[category as FaultCategory].next, 'never')
  }
  assert.equal(FAULTS.other.http, 500, 'an unrecognised failure is one')
})
