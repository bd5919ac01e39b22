/** Re-attaching to llama.cpp's replay ring, by the model client and by the relay behind gateway and `resilientFetch`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { callMore, callStart, done, finish, role, text } from '../../../../test/kit/openai-frames.ts'
import { eventually } from '../../../../test/kit/wait.ts'
import { resilientFetch, streamAnswer, type AnswerEvent } from '../../src/index.ts'
import { Llama, type LlamaOptions } from '../llama-replay.ts'

/** Words and arguments differ in each answer: only a replay can be exact. */
const answer = (nth: number): string =>
  [
    role,
    text(`Answer ${nth}: `),
    text('żółw 🥋 '),
    callStart('c1', 'bash'),
    callMore('{"command":'),
    callMore(`"echo ${nth}"}`),
    finish('tool_calls'),
    done,
  ].join('')
const WHOLE = answer(1)
const POLICY = { backoffMs: 1, attemptsMax: 3, livenessMs: 20_000, progressMs: 30_000 }
const MESSAGES = [{ role: 'user' as const, content: 'go' }]

const startLlama = (options: Partial<LlamaOptions>): Promise<Llama> =>
  new Llama({ cuts: [], answer, ...options }).listen()

async function relayed(llama: Llama): Promise<string> {
  const fetch = resilientFetch({ profile: 'llama-cpp', policy: POLICY, hold: 'none' })
  const body = JSON.stringify({ model: 'm', stream: true, messages: MESSAGES })
  const res = await fetch(`${llama.url}/chat/completions`, { method: 'POST', body })
  return res.text()
}

async function streamed(
  llama: Llama,
  signal?: AbortSignal,
  livenessMs = POLICY.livenessMs,
): Promise<readonly AnswerEvent[]> {
  const request = { baseUrl: llama.url, model: 'm', messages: MESSAGES, profile: 'llama-cpp' as const }
  return Array.fromAsync(streamAnswer(request, { policy: { ...POLICY, livenessMs }, signal }))
}

for (const way of ['reset', 'fin', 'clean'] as const)
  test(`${way} at any byte: the client gets the bytes of the unbroken answer, after one request`, async () => {
    const at = Array.from({ length: 24 }, (_, index) => 1 + Math.floor((index * (WHOLE.length - 2)) / 23))
    await Promise.all(
      at.map(async (cut) => {
        await using llama = await startLlama({ cuts: [cut, 3, 40], way })
        assert.equal(await relayed(llama), WHOLE, `cut at ${cut}`)
        assert.equal(llama.ids.length, 1)
      }),
    )
  })

test('the model client releases the call of the first answer, cut inside its arguments, in one attempt', async () => {
  await using llama = await startLlama({ cuts: [WHOLE.indexOf('echo') - 5, 10] })
  const events = await streamed(llama)
  const calls = events.flatMap((event) => (event.type === 'tool-call' ? [event.arguments] : []))
  assert.deepEqual(calls, [{ command: 'echo 1' }])
  const last = events.at(-1)
  assert(last?.type === 'done')
  assert.deepEqual(
    last.ledger.map(({ attempt, reattached }) => [attempt, reattached]),
    [[1, 2]],
  )
})

test('a caller that leaves ends the answer at the server', async () => {
  await using llama = await startLlama({ cuts: [200], silentReplay: true })
  const controller = new AbortController()
  const reading = streamed(llama, controller.signal)
  await eventually('an answer', () => llama.live.size === 1 && llama.calls.includes('GET /v1/stream'))
  controller.abort()
  await reading
  await eventually('a free slot', () => llama.live.size === 0)
})

test('an answer that fell out of the ring is asked for again, under a new id', async () => {
  await using llama = await startLlama({ cuts: [60], ringBytes: 10 })
  const events = await streamed(llama)
  assert.equal(events.at(-1)?.type, 'done')
  assert.equal(llama.ids.length, 2)
  assert.equal(new Set(llama.ids).size, 2)
  await eventually('the first answer to be forgotten', () => !llama.live.has(llama.ids[0] ?? ''))
})

test('a server without the route is asked for it once, and gets no id after that', async () => {
  await using llama = await startLlama({ cuts: [60], hasRoute: false })
  assert.equal((await streamed(llama)).at(-1)?.type, 'done')
  await streamed(llama)
  assert.deepEqual(
    llama.ids.map((id) => id === undefined),
    [false, true, true],
  )
  assert.equal(llama.calls.filter((call) => call.includes('lookup')).length, 1)
  assert.equal(llama.calls.includes('GET /v1/stream'), false)
})

test('a replay that never says anything is given up, and the answer is asked for again', async () => {
  await using llama = await startLlama({ cuts: [60], silentReplay: true })
  assert.equal((await streamed(llama, undefined, 250)).at(-1)?.type, 'done')
  assert.equal(llama.ids.length, 2)
})
