/** Agents that repeat themselves: reported from the request's own history, and refused only if that was asked for. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answer } from '../../../test/kit/openai-frames.ts'
import { type GatewayLogEntry, type WatchNote } from '../src/index.ts'
import { post, stand } from './client.ts'

type Round = { readonly args: object; readonly said: string }

/** The same steps as each API has them. */
const HISTORIES: Readonly<Record<string, (rounds: readonly Round[]) => object>> = {
  '/v1/chat/completions': (rounds) => ({
    messages: [
      { role: 'user', content: 'go' },
      ...rounds.flatMap(({ args, said }, at) => [
        {
          role: 'assistant',
          content: 'Again.',
          tool_calls: [{ id: `c${at}`, type: 'function', function: { name: 'ls', arguments: JSON.stringify(args) } }],
        },
        { role: 'tool', tool_call_id: `c${at}`, content: said },
      ]),
    ],
  }),
  '/v1/messages': (rounds) => ({
    messages: [
      { role: 'user', content: 'go' },
      ...rounds.flatMap(({ args, said }, at) => [
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'Again.' },
            { type: 'tool_use', id: `t${at}`, name: 'ls', input: args },
          ],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: `t${at}`, content: said }] },
      ]),
    ],
  }),
  '/v1/responses': (rounds) => ({
    input: [
      { role: 'user', content: 'go' },
      ...rounds.flatMap(({ args, said }, at) => [
        { type: 'reasoning', id: `rs${at}`, summary: [], encrypted_content: 'x' },
        { type: 'function_call', call_id: `f${at}`, name: 'ls', arguments: JSON.stringify(args) },
        { type: 'function_call_output', call_id: `f${at}`, output: said },
      ]),
    ],
  }),
  '/v1beta/models/m:generateContent': (rounds) => ({
    contents: [
      { role: 'user', parts: [{ text: 'go' }] },
      ...rounds.flatMap(({ args, said }) => [
        { role: 'model', parts: [{ functionCall: { name: 'ls', args } }] },
        { role: 'user', parts: [{ functionResponse: { name: 'ls', response: { said } } }] },
      ]),
    ],
  }),
}

const same = (count: number): readonly Round[] =>
  Array.from({ length: count }, () => ({ args: { path: '.' }, said: 'a.txt' }))

for (const [path, history] of Object.entries(HISTORIES))
  test(`${path}: five equal steps are reported, and the request is sent unchanged; anything else is not`, async (t) => {
    const logged: GatewayLogEntry[] = []
    const note = (entry: GatewayLogEntry): void => void logged.push(entry)
    const { gateway, model } = await stand(t, () => answer('ok'), {
      logger: { info: note, warn: note },
      policy: { attemptsMax: 1 },
    })
    const notes: WatchNote[] = []
    gateway.watch.subscribe((one) => void (one !== undefined && notes.push(one)))
    const url = new URL(path, gateway.url).href
    const body = history(same(6))
    await (await post(url, body)).text()
    assert.equal(model.requests[0]?.text, JSON.stringify(body))
    assert.deepEqual([logged[0]?.loop, notes[0]?.text], [6, 'ls with the same arguments and the same result, 6 times'])
    const others = [
      same(4),
      [...same(6), { args: { path: '.' }, said: 'b.txt' }],
      [...same(6), { args: { path: '..' }, said: 'a.txt' }],
      Array.from({ length: 9 }, (_, at) => ({ args: { path: '.' }, said: `poll ${at}` })),
    ]
    for (const rounds of others) await (await post(url, history(rounds))).text()
    assert.deepEqual(
      logged.slice(1).map(({ loop }) => loop),
      others.map(() => undefined),
    )
    const metrics = await (await fetch(new URL('/metrics', gateway.url))).text()
    assert.match(metrics, /^breakfall_gateway_loops_total\{result="reported"\} 1$/m)
  })

test('with stopLoops, such a request is refused before the model is asked', async (t) => {
  const { gateway, model } = await stand(t, () => answer('ok'), { stopLoops: 5 })
  for (const [path, history] of Object.entries(HISTORIES)) {
    const res = await post(new URL(path, gateway.url).href, history(same(5)))
    assert.equal(res.status, 400, path)
    assert.match(await res.text(), /same call of ls 5 times in a row/)
  }
  assert.equal(model.requests.length, 0)
})

test('a user’s message, parallel calls and long histories are no loop', async (t) => {
  const { gateway, model } = await stand(t, () => answer('ok'), { stopLoops: 2 })
  const build = HISTORIES['/v1/chat/completions'] ?? assert.fail()
  const { messages } = build(same(5)) as { messages: readonly { tool_calls?: readonly object[] }[] }
  const parallel = messages.map((one) =>
    one.tool_calls === undefined ? one : { ...one, tool_calls: [...one.tool_calls, ...one.tool_calls] },
  )
  const long = build(same(6).map((round) => ({ ...round, said: 'x'.repeat(200_000) })))
  for (const body of [
    { messages: [...messages, { role: 'user', content: 'stop' }] },
    { messages: parallel },
    long,
    { messages: [] },
    { messages: 'x' },
    {},
  ])
    assert.notEqual((await post(`${gateway.url}/chat/completions`, body)).status, 400)
  assert.ok(model.requests.length >= 6)
})
