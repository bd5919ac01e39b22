import assert from 'node:assert/strict'
import { test } from 'node:test'
import { watchLines } from '../src/commands/gateway/live-view.ts'
import { noteLine, requestLine, totalsLine } from '../src/commands/gateway/request-lines.ts'

const at = '2026-11-15T12:34:56.789Z'
const asked = {
  requestId: '01a1-abcdef',
  method: 'POST',
  path: '/v1/chat/completions',
  status: 200,
  model: 'qwen3',
  ms: 1_200,
}

test('a request is one line: when, which, how long, how many attempts, which faults it survived', () => {
  assert.deepEqual(requestLine({ ...asked, attempts: 1, faults: [] }, 'answered', false, at), {
    tone: 'dim',
    text: '12:34:56 ✓ abcdef  POST /v1/chat/completions  qwen3  200  1.2 s',
  })
  const faults = ['model_overloaded', 'model_overloaded', 'model_stream_interrupted']
  assert.deepEqual(requestLine({ ...asked, attempts: 4, faults }, 'answered after faults', false, at), {
    tone: 'good',
    text: '12:34:56 ✓ abcdef  POST /v1/chat/completions  qwen3  200  1.2 s  4 attempts  survived model_overloaded ×2, model_stream_interrupted',
  })
})

test('a failure is red and says why; a request that its client ended is neither good nor bad', () => {
  const failed = { ...asked, status: 502, attempts: 6, faults: ['model_unreachable'], category: 'model_unreachable' }
  const line = requestLine({ ...failed, errorRaw: 'connect\nECONNREFUSED \x1b[2J' }, 'failed', true, at)
  assert.equal(line.tone, 'bad')
  assert.match(line.text, /✗ abcdef .* 502 .* 6 attempts {2}failed: model_unreachable \(connect ECONNREFUSED \)$/)
  assert.match(
    requestLine({ ...asked, status: 499, category: 'cancelled' }, 'the client left', false, at).text,
    /■ .*the client left/,
  )
})

test('the live view has one line for each stream, whatever its model is called', () => {
  const model = 'a\n● http://other  healthy\t\x1b[2J'
  const stream = {
    requestId: '01a1-abcdef',
    path: asked.path,
    model,
    stream: true,
    startedAt: at,
    upstream: 'u',
  } as const
  const live = [{ ...stream, attempt: 1, state: 'asking', bytes: 0, lastFault: null, nextAt: null } as const]
  const totals = { requests: 1, attempts: 1, faults: 0, healed: 0, lost: 0, unhealed: 0, repaired: 0 }
  const text = 'status 500:\nin two lines'
  const recent = [{ at, requestId: '01a1-abcdef', kind: 'lost', category: 'other', text } as const]
  const lines = watchLines({ at, live, recent, totals, upstreams: [] }, 200)
  assert.equal(lines.length, 6)
  for (const line of lines) assert.doesNotMatch(line, /\p{Cc}/u)
})

test("a failed attempt is printed at once with the next action; the rest follows in the request's line", () => {
  const note = {
    at,
    requestId: '01a1-abcdef',
    category: 'model_stream_stalled',
    text: 'no byte; retry in 420 ms',
  } as const
  assert.equal(
    noteLine({ ...note, kind: 'fault' })?.text,
    '12:34:56 ⚡ abcdef  model_stream_stalled: no byte; retry in 420 ms',
  )
  assert.equal(noteLine({ ...note, kind: 'healed' }), undefined)
  const totals = { requests: 1, attempts: 2, faults: 1, healed: 1, lost: 0, unhealed: 0, repaired: 0 }
  assert.equal(totalsLine(totals), '1 request, 2 attempts, 1 fault, 1 healed, 0 lost')
})
