/** The relay of the Responses API, cut point by cut point. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOLDS } from '../src/index.ts'
import { cut, head, json, lastChunk, type Play, silence, stream } from '../../../test/kit/plays.ts'
import {
  callItem,
  customItem,
  failedEvent,
  flatError,
  type Item,
  messageItem,
  otherItem,
  reasoningItem,
  responseEvent,
  responding,
  responseFrames,
  unnumbered,
  upToDelta,
  wholeResponse,
} from '../../../test/kit/responses-frames.ts'
import { framesIn } from '../../../test/kit/sse.ts'
import { unboundedShare } from '@breakfall/wire/node'
import { ClientStream } from '../src/relay/client-stream.ts'
import { RELAY_DEFAULTS } from '../src/relay/relay.ts'
import { type Relayed, relayed as relay, type RelayedOptions } from './relayed.ts'
import type { Script } from '../../../test/kit/model-server.ts'

const relayed = (script: Script, options: RelayedOptions = {}): Promise<Relayed> =>
  relay(script, { api: 'openai-responses', hold: 'tools', ...options })

const BACKGROUND = { background: true, store: true }
const TOO_OLD = { error: { message: 'Response can no longer be streamed because it is more than 5 minutes old.' } }
const HELLO = responseFrames([messageItem(['Hello', ' world'])])
const typesOf = ({ frames }: Relayed): string[] => frames.map(({ json: event }) => event.type)
const numbersOf = ({ frames }: Relayed): number[] => frames.map(({ json: event }) => event.sequence_number)
const dense = (got: Relayed): void => assert.deepEqual(numbersOf(got), [...got.frames.keys()])
const endOf = ({ frames }: Relayed) => frames.at(-1)?.json

test('over a heal the client keeps the first ids, dense numbers and one beginning, and the text is there once', async () => {
  const second = responseFrames([messageItem(['Hello wor', 'ld'], 'msg_2')], { id: 'resp_2' })
  const got = await relayed([cut(...upToDelta(HELLO, 1)), stream(...second)])
  dense(got)
  assert.equal(got.text, 'Hello world')
  assert.equal(typesOf(got).filter((type) => type === 'response.created').length, 1)
  const { response } = endOf(got)
  assert.deepEqual(
    [response.id, response.output[0].id, response.output[0].content[0].text],
    ['resp_1', 'msg_1', 'Hello world'],
  )
  assert.ok(got.frames.every(({ json: event }) => event.item_id === undefined || event.item_id === 'msg_1'))
})

/** A message whose text is divided into these parts. */
const partsItem =
  (texts: readonly string[], id: string, last: object = {}): Item =>
  (output_index) => {
    const parts = texts.map((text, index) => ({
      type: 'output_text',
      text,
      annotations: [],
      ...(index === texts.length - 1 ? last : {}),
    }))
    const item = { id, type: 'message', role: 'assistant', status: 'completed', content: parts }
    const inside = parts.flatMap((part, content_index) => {
      const at = { item_id: id, output_index, content_index }
      return [
        { type: 'response.content_part.added', ...at, part: { ...part, text: '', annotations: [] } },
        { type: 'response.output_text.delta', ...at, delta: part.text, logprobs: [] },
        { type: 'response.output_text.done', ...at, text: part.text },
        { type: 'response.content_part.done', ...at, part },
      ]
    })
    const begun = { ...item, status: 'in_progress', content: [] }
    const added = { type: 'response.output_item.added', output_index, item: begun }
    return { events: [added, ...inside, { type: 'response.output_item.done', output_index, item }], item }
  }

/** What a client that appends deltas holds, by item and part, and what the events that end them say. */
function heldAndSaid(got: Relayed) {
  const held: string[][] = []
  const closed: string[][] = []
  let items: unknown
  for (const { json: event } of got.frames) {
    const { type, output_index: at, content_index: part } = event
    if (type === 'response.output_text.delta') (held[at] ??= [])[part] = (held[at]?.[part] ?? '') + event.delta
    if (type === 'response.content_part.done') (closed[at] ??= [])[part] = event.part.text
    if (type === 'response.output_text.done') assert.equal(event.text, held[at]?.[part])
    if (type === 'response.output_item.done') (items as unknown[] | undefined)?.push(event.item)
    items ??= []
  }
  return { held, closed, items }
}

test('however another attempt divides the text, what is done holds what was sent', async () => {
  const divided = [['Keep ', 'all files.'], ['Keep all files.'], ['K', 'eep all files', '.']]
  const pairs = divided.flatMap((one) => divided.map((other) => [one, other] as const))
  const heal = async ([one, other]: (typeof pairs)[number]): Promise<void> => {
    const second = stream(...responseFrames([partsItem(other, `msg_${other.length}`)]))
    for (const delta of one.keys()) {
      const first = upToDelta(responseFrames([partsItem(one, 'msg_1')]), delta + 1)
      const got = await relayed([cut(...first), second])
      dense(got)
      const { held, closed, items } = heldAndSaid(got)
      assert.deepEqual([got.text, got.error], ['Keep all files.', undefined])
      assert.deepEqual(closed, held)
      assert.deepEqual(endOf(got).response.output, items)
      const content = endOf(got).response.output[0].content as readonly { text: string }[]
      assert.deepEqual([content.map(({ text }) => text)], held)
    }
  }
  await Promise.all(pairs.map(heal))
})

test('a message that another attempt sends in one event continues in the part that is open', async () => {
  const [created, progress, ...rest] = responseFrames([messageItem(['Hello world'], 'msg_2')])
  const second = [created ?? '', progress ?? '', ...rest.slice(-2)]
  for (const deltas of [1, 2]) {
    const got = await relayed([cut(...upToDelta(HELLO, deltas)), stream(...second)])
    dense(got)
    assert.deepEqual([got.text, got.error], ['Hello world', undefined])
    assert.deepEqual(endOf(got).response.output[0].content[0].text, 'Hello world')
    assert.equal(new Set(typesOf(got)).size, typesOf(got).length - 1)
  }
})

test('text never continues a refusal that the client holds', async () => {
  const at = { item_id: 'msg_1', output_index: 0, content_index: 0 }
  const [created = '', progress = '', added = '', , , , , , completed = ''] = HELLO
  const refused = responseEvent({ type: 'response.refusal.delta', ...at, delta: 'No' })
  const part = responseEvent({ type: 'response.content_part.added', ...at, part: { type: 'refusal', refusal: '' } })
  const text = responseEvent({ type: 'response.output_text.delta', ...at, delta: ' way' })
  const begun = [created, progress, added, part, refused]
  const got = await relayed([cut(...begun), stream(...begun, text, completed)], { policy: { attemptsMax: 2 } })
  assert.equal(endOf(got).type, 'error')
  assert.doesNotMatch(got.body, / way/)
})

test('what the provider ran in another attempt before the text is one more item', async () => {
  const ran = otherItem({ id: 'ci_1', type: 'code_interpreter_call' }, ['response.code_interpreter_call.completed'])
  const second = responseFrames([ran, messageItem(['Hello', ' world'], 'msg_2')])
  const got = await relayed([cut(...upToDelta(HELLO, 1)), stream(...second)])
  dense(got)
  assert.deepEqual([got.text, got.error], ['Hello world', undefined])
  const { output } = endOf(got).response as { output: readonly { id: string }[] }
  assert.deepEqual(
    output.map(({ id }) => id),
    ['msg_1', 'ci_1'],
  )
  assert.equal(typesOf(got).filter((type) => type === 'response.code_interpreter_call.completed').length, 1)
})

test('annotations of another attempt come once, and are an error where they do not fit', async () => {
  const noted = { annotations: [{ type: 'url_citation', start_index: 0, end_index: 5 }] }
  const fitting = await relayed([
    cut(...upToDelta(HELLO, 1)),
    stream(...responseFrames([partsItem(['Hello world'], 'm', noted)])),
  ])
  assert.deepEqual(endOf(fitting).response.output[0].content[0].annotations, noted.annotations)
  const divided = responseFrames([partsItem(['Hello', ' world'], 'm', noted)])
  const got = await relayed([cut(...upToDelta(HELLO, 2)), stream(...divided)], { policy: { attemptsMax: 2 } })
  assert.equal(endOf(got).type, 'error')
})

test('an answer that waited in a queue says so, and a part begins once where it is read on', async () => {
  const [created = '', ...rest] = HELLO.map((frame) =>
    frame.replace(/"sequence_number":(\d+)/, (_, n) => `"sequence_number":${Number(n) + 1}`),
  )
  const first = created.replace('"sequence_number":1', '"sequence_number":0')
  const queued = created.replaceAll('response.created', 'response.queued')
  assert.equal((await relayed([stream(first, queued, ...rest)])).body, [first, queued, ...rest].join(''))
  const final = wholeResponse([messageItem(['Hello', ' world'])])
  const script: Script = ({ method, path }) =>
    method === 'POST' ? cut(...HELLO.slice(0, 4)) : path.includes('stream=true') ? json(400, TOO_OLD) : json(200, final)
  const items = [reasoningItem(['h', 'm']), customItem('patch', 'a long input')]
  for (const last of [4, 5, 12]) {
    const late: Script = ({ method, path }) => {
      if (method === 'POST') return cut(...responseFrames(items).slice(0, last))
      return path.includes('stream=true') ? json(400, TOO_OLD) : json(200, wholeResponse(items))
    }
    const read = await relayed(late, { body: BACKGROUND })
    dense(read)
    assert.match(read.frames.map(({ json: { delta = '' } }) => delta).join(''), /^hm(?:a long input)?$/)
  }
  const got = await relayed(script, { body: BACKGROUND })
  assert.deepEqual(
    [got.text, typesOf(got).filter((type) => type === 'response.content_part.added').length],
    ['Hello world', 1],
  )
})

test('an answer that needs no repair ends with the event that its server sent', async () => {
  const spaced = HELLO.map((frame) => frame.replaceAll('":', '": '))
  assert.equal((await relayed([stream(...spaced)])).body, spaced.join(''))
})

test('headers come from the attempt whose content is forwarded', async () => {
  const first = [head(200, { 'x-codex-turn-state': 'one' }), ...HELLO.slice(0, 3), lastChunk]
  const second = [head(200, { 'x-codex-turn-state': 'two' }), ...HELLO, lastChunk]
  assert.equal((await relayed([first, second])).headers['x-codex-turn-state'], 'two')
})

test('thoughts go out whole, and those of another attempt are one more item', async () => {
  const one = responseFrames([reasoningItem(['hm'], 'rs_1'), messageItem(['Hello', ' world'])])
  const two = responseFrames([reasoningItem(['well'], 'rs_2'), messageItem(['Hello', ' world'], 'msg_2')])
  const inside = await relayed([cut(...upToDelta(one, 1)), stream(...two)])
  assert.deepEqual(
    endOf(inside).response.output.map(({ id }: { id: string }) => id),
    ['rs_2', 'msg_2'],
  )
  const before = await relayed([cut(...one.slice(0, 8)), stream(...two)])
  assert.deepEqual(
    endOf(before).response.output.map(({ id }: { id: string }) => id),
    ['rs_1', 'rs_2', 'msg_2'],
  )
  const after = await relayed([cut(...upToDelta(one, 2)), stream(...two)])
  assert.deepEqual(
    endOf(after).response.output.map(({ id }: { id: string }) => id),
    ['rs_1', 'msg_1', 'rs_2'],
  )
  for (const got of [inside, before, after]) {
    dense(got)
    assert.equal(got.text, 'Hello world')
  }
})

for (const hold of HOLDS) {
  test(`hold ${hold}: a call that was finished before the cut is passed on at most once`, async () => {
    const frames = responseFrames([callItem('bash', '{"command":"ls"}')])
    const got = await relayed([cut(...frames.slice(0, -1)), stream(...frames)], { hold })
    assert.deepEqual(got.calls, ['{"command":"ls"}'])
    assert.equal(got.requests.length, hold === 'none' ? 1 : 2)
    assert.equal(endOf(got).type, hold === 'none' ? 'error' : 'response.completed')
  })
}

test('a custom call that was cut in the middle is never passed on, however whole it looks', async () => {
  const item = customItem('patch', '*** Begin Patch')
  const whole = responseFrames([item])
  const half = upToDelta(whole, 2)
  const ended = [...half, whole.at(-1)?.replace(/"output":\[.*?\],"usage"/s, '"output":[],"usage"') ?? '']
  for (const broken of [stream(...ended), stream(...half), cut(...half)])
    for (const hold of ['auto', 'tools', 'answer'] as const) {
      const got = await relayed([broken, stream(...whole)], { hold })
      assert.deepEqual([got.calls, got.requests.length], [['*** Begin Patch'], 2], hold)
    }
})

test('calls and items of an unknown type wait for the terminal event, all or none', async () => {
  const unknown = otherItem({ id: 'x_1', type: 'teleport_call', call_id: 'c9' })
  const frames = responseFrames([messageItem(['Hi']), unknown, callItem('bash', '{"command":"ls"}')])
  const got = await relayed([cut(...frames.slice(0, -1)), json(400, {})])
  assert.deepEqual([got.text, got.calls], ['Hi', []])
  assert.ok(!got.body.includes('teleport'))
})

test('a tool search waits for the terminal event unless the provider runs it', async () => {
  for (const [execution, isSent] of [
    ['client', false],
    [undefined, false],
    ['server', true],
  ] as const) {
    const search = otherItem({
      id: 'ts_1',
      type: 'tool_search_call',
      ...(execution === undefined ? {} : { execution }),
    })
    const got = await relayed([cut(...responseFrames([messageItem(['Hi']), search]).slice(0, -1)), json(400, {})])
    assert.equal(got.body.includes('ts_1'), isSent, execution ?? 'not said')
  }
})

test('an answer that cannot be healed ends with the flat error and nothing after it', async () => {
  const start = upToDelta(HELLO, 2)
  for (const broken of [cut(...start), stream(...start), stream(...start, flatError('server_error', 'boom'))]) {
    const got = await relayed([broken, responding([messageItem(['Howdy'])])])
    dense(got)
    const { type, code, param, message } = endOf(got)
    assert.deepEqual([type, code, param], ['error', 'model_stream_interrupted', null])
    assert.match(message, /cannot be continued|stopped after/)
  }
})

test('an error that no retry can help is the response before content, and a flat error after it', async () => {
  for (const [refusal, status] of [
    ['invalid_prompt', 400],
    ['bio_policy', 422],
    ['invalid_image_url', 400],
  ] as const) {
    const before = await relayed([stream(...HELLO.slice(0, 2), failedEvent(refusal, 'no'))])
    assert.deepEqual([before.requests.length, before.status, JSON.parse(before.body).error.code], [1, status, refusal])
  }
  const overflow = await relayed([stream(...HELLO.slice(0, 2), failedEvent('context_length_exceeded', 'too long'))])
  assert.deepEqual([overflow.status, JSON.parse(overflow.body).error.code], [413, 'context_length_exceeded'])
  const after = await relayed([stream(...upToDelta(HELLO, 1), flatError('context_length_exceeded', 'too long'))])
  assert.deepEqual([endOf(after).type, endOf(after).code], ['error', 'context_length_exceeded'])
})

test('a completed event with the status incomplete is a finished answer', async () => {
  const more = { incomplete_details: { reason: 'max_output_tokens' } }
  const frames = responseFrames([messageItem(['Hel'])], { status: 'incomplete', end: 'response.completed', more })
  const got = await relayed([stream(...frames)], { profile: 'vllm' })
  assert.deepEqual([got.text, got.requests.length, endOf(got).response.status], ['Hel', 1, 'incomplete'])
})

test('a completed answer of llama.cpp whose arguments do not parse is asked for again', async () => {
  const short = unnumbered(responseFrames([callItem('bash', '{"comm')]))
  const good = unnumbered(responseFrames([callItem('bash', '{"command":"ls"}')]))
  const got = await relayed([stream(...short), stream(...good)], { profile: 'llama-cpp' })
  dense(got)
  assert.deepEqual([got.calls, got.requests.length], [['{"command":"ls"}'], 2])
})

test('an empty output keeps the items that were streamed; nothing at all is asked for again once', async () => {
  const frames = responseFrames([messageItem(['Hello'])], { more: { output: [] } })
  const kept = await relayed([stream(...frames)])
  assert.deepEqual([kept.requests.length, endOf(kept).response.output[0].content[0].text], [1, 'Hello'])
  const again = await relayed([responding([]), responding([messageItem(['Hi'])])])
  assert.deepEqual([again.text, again.requests.length], ['Hi', 2])
  const never = await relayed([responding([])])
  assert.deepEqual([never.requests.length, endOf(never).type, never.error], [2, 'response.completed', undefined])
})

test('what the gateway changes in an event leaves all its other bytes: the output that a server left out, and numbers after a ping', async () => {
  const odd = (event: string): string =>
    event.replace('"id":"resp', '"temperature":1.0,"seed":12345678901234567890,"id":"resp')
  const words = Array.from({ length: 60 }, (_, at) => `word${at} `)
  const whole = responseFrames([messageItem(words)]).map(odd)
  assert.equal((await relayed([stream(...whole)])).body, whole.join(''))
  const { output } = endOf(await relayed([stream(...whole)])).response
  const last = whole.at(-1) ?? ''
  const filled = `"output":${JSON.stringify(output)}`
  const empty = [...whole.slice(0, -1), last.replace(filled, '"output": []')]
  assert.equal((await relayed([stream(...empty)])).body, whole.join(''))
  const { promise: enough, resolve } = Promise.withResolvers<void>()
  let body = ''
  const onWrite = (piece: string): void => {
    body += piece
    if (body.split('event: response.in_progress').length > 2) resolve()
  }
  const slow = [head(), whole.slice(0, 2).join(''), () => enough, whole.slice(2).join(''), lastChunk]
  const pinged = await relayed([slow], { pingMs: 5, hold: 'answer', onWrite })
  const pings = pinged.body.match(/event: response.in_progress/g)?.length ?? 0
  dense(pinged)
  assert.ok(pings > 1)
  assert.equal(pinged.text, words.join(''))
  const inProgress = whole.filter((event) => event.startsWith('event: response.in_progress')).length
  const joined = whole.length + pings - inProgress - pinged.frames.length // deltas that came at once may be one event
  const number = whole.length - 1
  const now = number + pings - inProgress - joined
  assert.ok(pinged.body.endsWith(last.replace(`"sequence_number":${number}`, `"sequence_number":${now}`)))
})

test('a tool that the provider ran is not run again without a word', async () => {
  const ran = otherItem({ id: 'mcp_1', type: 'mcp_call', name: 'deploy' }, ['response.mcp_call.in_progress'])
  const frames = responseFrames([ran, messageItem(['Deployed'])])
  const got = await relayed([cut(...frames.slice(0, 4)), stream(...frames)])
  assert.equal(got.requests.length, 1)
  assert.match(endOf(got).message, /The provider may have run mcp_call already/)
  const search = otherItem({ id: 'ws_1', type: 'web_search_call' }, ['response.web_search_call.searching'])
  const found = responseFrames([search, messageItem(['Found'])])
  const read = await relayed([cut(...found.slice(0, 4)), stream(...found)])
  assert.deepEqual([read.text, read.requests.length], ['Found', 2])
})

test('a silent stream is kept alive by numbered response.in_progress events', async () => {
  const waiting: Play = [
    head(),
    ...HELLO.slice(0, 2),
    () => new Promise((resolve) => setTimeout(resolve, 60)),
    ...HELLO.slice(2),
    lastChunk,
  ]
  const got = await relayed([waiting], { pingMs: 10, hold: 'answer' })
  dense(got)
  assert.deepEqual(typesOf(got).slice(0, 3), ['response.created', 'response.in_progress', 'response.in_progress'])
  assert.equal(got.text, 'Hello world')
})

test('six silent minutes behind hold answer are 24 pings that clients count as events', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  let body = ''
  const write = (chunk: string | Buffer): boolean => {
    body += chunk.toString()
    return true
  }
  const sink = { head: () => undefined, write, drained: () => Promise.resolve(), end: () => undefined }
  const request = { api: 'openai-responses', json: { stream: true } } as const
  const client = new ClientStream(request, sink, { ...RELAY_DEFAULTS, hold: 'answer', memory: unboundedShare() })
  client.begin()
  for (const { event, data, json: parsed } of framesIn(HELLO.slice(0, 2).join('')).frames)
    client.take('lifecycle', { event, data }, parsed, undefined, [])
  t.mock.timers.tick(6 * 60_000)
  client.stop()
  const { frames, comments } = framesIn(body)
  assert.deepEqual(
    frames.map(({ event, json: { sequence_number } }) => [event, sequence_number]),
    ['created', ...Array.from({ length: 25 }, () => 'in_progress')].map((type, index) => [`response.${type}`, index]),
  )
  assert.equal(comments.length, 0)
})

test('a response in one piece is retried, and every attempt has the same conversation', async () => {
  const body = { stream: false, previous_response_id: 'resp_0', conversation: 'conv_1', input: 'hi' }
  const cutCall = wholeResponse([callItem('bash', '{"comm')])
  const good = wholeResponse([messageItem(['Hello'])])
  const got = await relayed([json(500, {}), json(200, cutCall), json(200, good)], { body })
  assert.deepEqual(JSON.parse(got.body), good)
  assert.deepEqual(new Set(got.requests.map(({ text }) => text)).size, 1)
  assert.equal(got.requests[2]?.body.previous_response_id, 'resp_0')
})

// ---- background ----

const LONG = responseFrames([messageItem(['a', 'b', 'c', 'd'])])

test('a background response is read on after the last event, and nothing is doubled', async () => {
  const script: Script = ({ method, path }) => {
    if (method === 'POST') return cut(...upToDelta(LONG, 2))
    const after = Number(/starting_after=(\d+)/.exec(path)?.[1])
    return after < 7 ? cut(...LONG.slice(after + 1, after + 2)) : stream(...LONG.slice(after + 1))
  }
  const got = await relayed(script, { body: BACKGROUND })
  dense(got)
  assert.deepEqual([got.text, got.requests.filter(({ method }) => method === 'POST').length], ['abcd', 1])
  assert.match(got.requests[1]?.path ?? '', /responses\/resp_1\?stream=true&starting_after=5$/)
  assert.deepEqual(got.events.at(-1), { type: 'healed', attempt: 1, how: 'reattach' })
})

test('a background response that is too old to stream is polled and finished from the final object', async () => {
  const old = { error: { message: 'Response can no longer be streamed because it is more than 5 minutes old.' } }
  let polls = 0
  const final = wholeResponse([messageItem(['a', 'b', 'c', 'd'])])
  const script: Script = ({ method, path }) => {
    if (method === 'POST') return cut(...upToDelta(LONG, 2))
    if (path.includes('stream=true')) return json(400, old)
    return json(200, ++polls < 3 ? { ...final, status: 'in_progress', output: [] } : final)
  }
  const got = await relayed(script, { body: BACKGROUND })
  dense(got)
  assert.deepEqual([got.text, polls, endOf(got).type], ['abcd', 3, 'response.completed'])
})

test('a background response whose client leaves is cancelled once', async () => {
  const gone = new AbortController()
  const seen: string[] = []
  const cancelled = Promise.withResolvers<void>()
  const script: Script = ({ method, path }) => {
    seen.push(`${method} ${path}`)
    if (path.endsWith('/cancel')) {
      cancelled.resolve()
      return json(200, {})
    }
    return [head(), ...upToDelta(LONG, 2), silence]
  }
  const leave = (body: string): void => {
    if (body.includes('"delta":"b"')) gone.abort()
  }
  const options = { body: BACKGROUND, signal: gone.signal, keepOpen: cancelled.promise, onWrite: leave }
  const got = await relayed(script, options)
  assert.equal(got.outcome.status, 499)
  assert.deepEqual(seen, ['POST /v1/responses', 'POST /v1/responses/resp_1/cancel'])
})
