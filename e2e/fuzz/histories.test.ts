/** Random conversations against the repair of requests, with new seeds each time. `npm run fuzz -- --histories` runs longer. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { startGateway } from '@breakfall/gateway'
import type { HistoryApi } from '../../test/kit/valid-history.ts'
import { Dice } from './dice.ts'
import { makeHistory } from './histories.ts'
import { lossIn, problemsOf, REFUSALS, refusalOf, runHistory, shrunkHistory, toldRun } from './repairs.ts'

const RUNS_MIN = 200 // on a slow machine
const BUDGET_MS = 5_000

test('a valid conversation is never changed, whatever the server claims; a broken one becomes valid, and nothing of it is lost', (t) => {
  const seed = Date.now() % 1_000_000_000
  t.diagnostic(`seeds from ${seed}`)
  const until = performance.now() + BUDGET_MS
  const tally = { valid: 0, repaired: 0, unrepaired: 0 }
  for (let at = 0; at < RUNS_MIN || performance.now() < until; at++) {
    const run = runHistory(seed + at)
    if (run.wrong !== undefined)
      assert.fail(`npm run fuzz -- --histories --seed ${seed + at}\n${toldRun(shrunkHistory(seed + at))}`)
    tally[run.end]++
  }
  t.diagnostic(JSON.stringify(tally))
  assert.ok(tally.repaired > 5 * tally.unrepaired, JSON.stringify(tally))
})

test('what a repair must not lose is noticed, once it is planted', () => {
  let planted = 0
  for (let seed = 1; seed < 200; seed += 2) {
    const { made, end, sent } = runHistory(seed)
    const last = sent.at(-1) ?? ''
    const user = made.users.find((text) => last.includes(JSON.stringify(text)))
    if (end !== 'repaired' || user === undefined) continue
    planted++
    assert.equal(lossIn(made, last), undefined)
    assert.match(lossIn(made, last.replace(JSON.stringify(user), '"other"')) ?? '', /^a text of the user is lost/)
    const input = made.inputs.find((text) => last.includes(text))
    if (input !== undefined) assert.match(lossIn(made, last.replaceAll(input, input.replace('"odd":', '"odd": '))) ?? '', /^it was changed/) // prettier-ignore
  }
  assert.ok(planted > 20)
})

test('the same seed makes the same conversation', () => {
  for (let seed = 1; seed <= 50; seed++) assert.deepEqual(makeHistory(seed, true), makeHistory(seed, true))
})

test('through a gateway, at once and over a socket: valid ones byte for byte, broken ones repaired', async (t) => {
  const server = new StrictServer()
  const gateway = await startGateway({ upstream: await server.listen(), logger: false })
  t.after(async () => {
    await gateway.close()
    server.close()
  })
  const from = Date.now() % 1_000_000
  t.diagnostic(`seeds from ${from}`)
  const ends = await Promise.all(
    Array.from({ length: 120 }, async (_, at) => {
      const seed = from + at
      const { api, body } = makeHistory(seed, seed % 2 === 1)
      const isValid = problemsOf(api, body).length === 0
      const lie = isValid && seed % 4 === 0 ? new Dice(seed).one('lie', STRICT_LIES) : undefined
      const res = await fetch(`${new URL(gateway.url).origin}${PATHS[api]}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-seed': String(seed), ...(lie === undefined ? {} : { 'x-lie': lie }) }, // prettier-ignore
        body,
      })
      const text = await res.text()
      const got = server.received.get(String(seed)) ?? []
      if (lie !== undefined) {
        assert.deepEqual([got.length, got[0] === body, text], [1, true, lie], String(seed))
        return 'lied'
      }
      if (isValid) {
        assert.deepEqual([res.status, got.length, got[0] === body], [200, 1, true], String(seed))
        return 'valid'
      }
      assert.equal(got[0], body)
      if (res.status === 200) assert.deepEqual(problemsOf(api, got.at(-1) ?? ''), [])
      assert.equal(res.headers.has('x-breakfall-repaired'), res.status === 200, String(seed))
      return res.status === 200 ? 'repaired' : 'unrepaired'
    }),
  )
  const tally = Map.groupBy(ends, (end) => end)
  for (const end of ['lied', 'valid', 'repaired'] as const) assert.ok((tally.get(end)?.length ?? 0) > 5, end)
})

// ---- details ----

const PATHS: Readonly<Record<HistoryApi, string>> = {
  'anthropic-messages': '/v1/messages/count_tokens',
  'openai-chat': '/v1/chat/completions',
  'openai-responses': '/v1/responses/compact',
  gemini: '/v1beta/models/m:generateContent',
}

/** About what can be seen in the conversation. Overflow and the like are answered by the gateway in other ways. */
const STRICT_LIES = REFUSALS.filter(
  ({ status, cause }) => status === 400 && /^(?:call_without|result_|call_misplaced|content_empty)/.test(cause),
).map(({ body }) => body)

/** Refuses what the validator finds, with a provider's message. */
class StrictServer {
  readonly received = new Map<string, string[]>()
  readonly #server = createServer((req, res) => {
    void this.#answer(req).then(({ status, body }) => {
      res.writeHead(status, { 'content-type': 'application/json' }).end(body)
    })
  })

  async listen(): Promise<string> {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async #answer(req: IncomingMessage): Promise<{ status: number; body: string }> {
    const chunks: Buffer[] = []
    for await (const chunk of req as AsyncIterable<Buffer>) chunks.push(chunk)
    const body = Buffer.concat(chunks).toString()
    const seed = String(req.headers['x-seed'])
    this.received.set(seed, [...(this.received.get(seed) ?? []), body])
    const lie = req.headers['x-lie']
    if (typeof lie === 'string') return { status: 400, body: lie }
    const api = (Object.keys(PATHS) as HistoryApi[]).find((name) => PATHS[name] === req.url) ?? 'openai-chat'
    const [problem] = problemsOf(api, body)
    if (problem !== undefined) return { status: 400, body: JSON.stringify(refusalOf(api, problem)) }
    return { status: 200, body: JSON.stringify(ANSWERS[api]) }
  }
}

const ANSWERS: Readonly<Record<HistoryApi, object>> = {
  'anthropic-messages': { input_tokens: 1 },
  'openai-chat': { object: 'chat.completion', choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }] }, // prettier-ignore
  'openai-responses': { output: [] },
  gemini: { candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }] },
}
