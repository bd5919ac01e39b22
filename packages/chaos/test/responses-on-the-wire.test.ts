/** Faults in streams of the Responses and Gemini APIs, as a raw socket sees them. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type PlanInput, startFaultProxy } from '../src/index.ts'
import { callItem, customItem, messageItem, responseFrames } from '../../../test/kit/responses-frames.ts'
import { dechunk, post, rawRequest } from './raw-client.ts'
import { sse, startUpstream } from './sse-upstream.ts'

type Fault = NonNullable<PlanInput['faults']>[number]
type Json = { readonly type: string } & Record<string, unknown>

const TEXT = responseFrames([messageItem(['a', 'b', 'c', 'd'])])

/** What a client of that path gets if its first answer meets the fault. */
async function answer(t: TestContext, fault: Fault, frames = TEXT, path = '/v1/responses'): Promise<string> {
  const upstream = await startUpstream(sse(frames))
  t.after(() => upstream.close())
  const proxy = await startFaultProxy({ upstream: upstream.url, plan: { at: [{ request: 1, attempt: 1, fault }] } })
  t.after(() => proxy.close())
  return (await rawRequest(proxy.port, post(path, {}), /\r\n0\r\n\r\n$/)).text
}

const eventsIn = (body: string): readonly Json[] =>
  [...body.matchAll(/^data: (.*)$/gm)].map((match) => JSON.parse(match[1] ?? '') as Json)

test('a cut planned after the end comes before the terminal event', async (t) => {
  const { body, isWhole } = dechunk(await answer(t, { kind: 'early_end', afterEvents: 900 }))
  assert.deepEqual([body, isWhole], [TEXT.slice(0, -1).join(''), true])
})

for (const [what, call, field] of [
  ['a function call', callItem('bash', '{"command":"ls -l /tmp"}'), 'arguments'],
  ['a custom call', customItem('patch', '*** Begin Patch of a file'), 'input'],
] as const) {
  test(`cut arguments of ${what} are cut everywhere the stream repeats them`, async (t) => {
    const { body } = dechunk(await answer(t, 'cut_tool_arguments', responseFrames([call])))
    const events = eventsIn(body)
    const deltas = events.filter(({ type }) => type.endsWith('.delta')).map(({ delta }) => delta)
    const done = events.find(
      ({ type }) =>
        type === `response.${field === 'input' ? 'custom_tool_call_input' : 'function_call_arguments'}.done`,
    )
    const item = events.find(({ type }) => type === 'response.output_item.done')?.['item'] as Json
    const end = events.at(-1)?.['response'] as { readonly output: readonly Json[] }
    const cut = deltas.join('')
    assert.ok(cut !== '' && cut.length < 20, cut)
    assert.deepEqual([done?.[field], item[field], end.output[0]?.[field]], [cut, cut, cut])
    assert.equal(events.at(-1)?.type, 'response.completed')
  })
}

test('cut arguments without a finish reason: the terminal event does not come', async (t) => {
  const frames = responseFrames([callItem('bash', '{"command":"ls"}')])
  const { body, isWhole } = dechunk(await answer(t, { kind: 'cut_tool_arguments', finish: false }, frames))
  assert.ok(isWhole && !body.includes('response.completed') && body.includes('response.output_item.done'))
})

test('an in-band error is an error event and the failed response, as OpenAI sends them', async (t) => {
  const { body } = dechunk(await answer(t, { kind: 'in_band_error', afterEvents: 4 }))
  const events = eventsIn(body)
  assert.deepEqual(
    events.slice(4).map(({ type }) => type),
    ['error', 'response.failed'],
  )
  assert.ok(body.startsWith(TEXT.slice(0, 4).join('')))
})

test("a Gemini stream is cut before its finish reason, and its errors have Google's format", async (t) => {
  const path = '/v1beta/models/m:streamGenerateContent?alt=sse'
  const gemini = (text: string, finishReason?: string): string =>
    `data: ${JSON.stringify({ candidates: [{ content: { parts: [{ text }] }, finishReason }] })}\n\n`
  const frames = [gemini('a'), gemini('b'), gemini('c', 'STOP')]
  const early = dechunk(await answer(t, { kind: 'early_end', afterEvents: 900 }, frames, path))
  assert.equal(early.body, frames.slice(0, 2).join(''))
  const failed = dechunk(await answer(t, { kind: 'in_band_error', afterEvents: 1 }, frames, path))
  const last = JSON.parse(failed.body.trim().split('\n').at(-1)?.slice('data: '.length) ?? '') as Json
  assert.deepEqual(last['error'], { code: 503, message: 'Overloaded', status: 'UNAVAILABLE' })
})
