import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { unboundedShare } from '@breakfall/wire/node'
import { isHistoryStatus } from '@breakfall/faults/internal'
import { type Json } from '../../../test/kit/json.ts'
import { Conversations, RequestRepair } from '../src/internal.ts'
import type { RelayApiName } from '../src/index.ts'

type Sample = { provider: string; api: string; status: number; body: string; cause: string; repairable: boolean }
const SAMPLES = readFileSync(new URL('../../../fixtures/bad-requests.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Sample)

const UNKNOWN = 'This call was interrupted. Whether it ran, and its result, are unknown. Check before you repeat it.'
const LEFT_OUT = '[A tool result whose call is no longer part of this conversation was left out.]'

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const repairOf = (api: string, body: string, conversations = new Conversations(() => 1)): RequestRepair =>
  new RequestRepair([Buffer.from(body)], {
    api: api as RelayApiName,
    key: 'k',
    conversations,
    memory: unboundedShare(),
  })

/** What is sent after these refusals; undefined if one of them is not followed by a repair. */
function repaired(api: string, request: object | string, ...refusals: readonly string[]): Json {
  const repair = repairOf(api, typeof request === 'string' ? request : JSON.stringify(request))
  for (const refusal of refusals) if (!repair.refused(400, parsed(refusal))) return undefined
  return JSON.parse(Buffer.concat(repair.body).toString())
}

// ---- what each cause looks like in a request, and what becomes of it ----

const user = (content: unknown = 'go'): object => ({ role: 'user', content })
const assistant = (...content: readonly object[]): object => ({ role: 'assistant', content })
const use = (id: string, more: object = {}): object => ({ type: 'tool_use', id, name: 'f', input: {}, ...more })
const result = (id: string, content = 'ok'): object => ({ type: 'tool_result', tool_use_id: id, content })
const text = (words: string): object => ({ type: 'text', text: words })
const thought = { type: 'thinking', thinking: '', signature: 's' }
const calls = (...ids: readonly string[]): object => ({
  role: 'assistant',
  content: null,
  tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })),
})
const tool = (id: string, content = 'ok'): object => ({ role: 'tool', tool_call_id: id, content })
const call = (id: string, more: object = {}): object => ({ type: 'function_call', call_id: id, name: 'f', arguments: '{}', ...more }) // prettier-ignore
const output = (id: string, words = 'ok'): object => ({ type: 'function_call_output', call_id: id, output: words })
const model = (...parts: readonly object[]): object => ({ role: 'model', parts })
const asks = (name = 'f', more: object = {}): object => ({ functionCall: { name, args: {} }, ...more })
const responds = (name = 'f', response: object = { result: 'ok' }): object => ({ functionResponse: { name, response } })
const says = (words = 'go'): object => ({ role: 'user', parts: [{ text: words }] })
const PNG = (width: number, height: number): string => {
  const head = Buffer.alloc(24)
  head.write('\u0089PNG\r\n\u001a\n', 0, 'latin1')
  head.writeUInt32BE(width, 16)
  head.writeUInt32BE(height, 20)
  return head.toString('base64')
}
const image = (data: string): object => ({ type: 'image', source: { type: 'base64', media_type: 'image/png', data } })

type Case = { readonly broken: object; readonly whole: object }
type Cases = Readonly<Record<string, (id: string) => Case>>
const of =
  (list: string) =>
  (broken: readonly object[], whole: readonly object[]): Case => ({
    broken: { [list]: broken },
    whole: { [list]: whole },
  })
const messages = of('messages')
const input = of('input')
const contents = of('contents')

const withoutThoughts = (): Case =>
  messages(
    [user(), assistant(thought, text('a')), user(), assistant(thought), user('b')],
    [user(), assistant(text('a')), user(), user('b')],
  )

const CASES: Readonly<Record<string, Cases>> = {
  'anthropic-messages': {
    call_without_result: (id) =>
      messages(
        [user(), assistant(use(id)), user('and now?')],
        [
          user(),
          assistant(use(id)),
          user([{ type: 'tool_result', tool_use_id: id, content: UNKNOWN, is_error: true }, text('and now?')]),
        ],
      ),
    result_without_call: (id) => messages([user([result(id)]), assistant(text('a')), user()], [user([text(LEFT_OUT)]), assistant(text('a')), user()]), // prettier-ignore
    server_result_without_call: (id) =>
      messages(
        [user(), assistant({ type: 'advisor_tool_result', tool_use_id: id }, text('a')), user()],
        [user(), assistant(text('a')), user()],
      ),
    result_duplicate: (id) =>
      messages(
        [user(), assistant(use(id)), user([result(id), result(id, 'again')])],
        [user(), assistant(use(id)), user([result(id)])],
      ),
    call_duplicate: () =>
      messages(
        [user(), assistant(use('x')), user([result('x', '1')]), assistant(use('x')), user([result('x', '2')])],
        [user(), assistant(use('x')), user([result('x', '1')]), assistant(use('x_2')), user([result('x_2', '2')])],
      ),
    content_empty: () =>
      messages(
        [user(), assistant(text(' '), text('a')), user(''), assistant(text('')), user('b')],
        [user(), assistant(text('a')), user('b')],
      ),
    cache_mark_on_empty: () =>
      messages([user([text('a'), { ...text(''), cache_control: { type: 'ephemeral' } }])], [user([text('a')])]),
    cache_marks_too_many: () => {
      const marked = { ...text('a'), cache_control: { type: 'ephemeral' } }
      const others = Array.from({ length: 4 }, () => user([marked]))
      return messages([user([marked]), ...others], [user([text('a')]), ...others])
    },
    thinking_altered: withoutThoughts,
    thinking_unverifiable: withoutThoughts,
    thinking_unbound: withoutThoughts,
    thinking_required: () => {
      const list = [user(), assistant(use('x')), user([result('x')])]
      return { broken: { thinking: { type: 'enabled' }, messages: list }, whole: { messages: list } }
    },
    trailing_space: () => messages([user(), { role: 'assistant', content: 'a\n \t' }], [user(), { role: 'assistant', content: 'a' }]), // prettier-ignore
    image_too_large: () =>
      messages(
        [user([image(PNG(9000, 10)), image(PNG(20, 20)), image('A'.repeat(6_000_000))]), assistant(use('x')), user([{ ...result('x'), content: [image(PNG(10, 9000))] }])], // prettier-ignore
        [],
      ),
  },
  'openai-chat': {
    call_without_result: (id) =>
      messages(
        [user(), calls(id, 'b'), tool('b'), user()],
        [user(), calls(id, 'b'), tool('b'), tool(id, UNKNOWN), user()],
      ),
    result_without_call: (id) => messages([user(), tool(id), user('b')], [user(), user('b')]),
    result_misplaced: () =>
      messages([user(), calls('a'), user('b'), tool('a')], [user(), calls('a'), tool('a'), user('b')]),
    call_id_malformed: () =>
      messages([user(), calls('call_1'), tool('call_1')], [user(), calls('74196fe72'), tool('74196fe72')]),
    arguments_unparsable: () => {
      const broken = { id: 'a', type: 'function', function: { name: 'f', arguments: '{"path": "\ud83d' } }
      const whole = { ...broken, function: { name: 'f', arguments: JSON.stringify({ _unparsed: '{"path": "\ud83d' }) } }
      const list = (one: object): object[] => [user(), { role: 'assistant', tool_calls: [one] }, tool('a')]
      return messages(list(broken), list(whole))
    },
    content_empty: () => messages([user(), { role: 'assistant', content: '' }, user('b')], [user(), user('b')]),
    roles_misordered: () => messages([user(), { role: 'assistant', content: 'a' }, { role: 'assistant', content: '"' }], [user(), { role: 'assistant', content: 'a\n\n"' }]), // prettier-ignore
    thinking_missing: () =>
      messages([user(), calls('a'), tool('a')], [user(), { ...calls('a'), reasoning_content: '' }, tool('a')]),
  },
  'openai-responses': {
    call_without_result: (id) => input([user(), call(id), call('b'), output('b'), user()], [user(), call(id), call('b'), output('b'), output(id, UNKNOWN), user()]), // prettier-ignore
    result_without_call: (id) => input([output(id), user()], [user()]),
    reasoning_undecryptable: () => input([{ type: 'reasoning', encrypted_content: 'x' }, user()], [user()]),
    reasoning_alone: (id) => input([{ type: 'reasoning', id, encrypted_content: 'x' }, { type: 'reasoning', id: 'rs_other' }, user()], [{ type: 'reasoning', id: 'rs_other' }, user()]), // prettier-ignore
    reasoning_detached: (id) => input([{ ...user(), id }, { ...user(), id: 'msg_b' }], [user(), { ...user(), id: 'msg_b' }]), // prettier-ignore
    item_unknown: (id) =>
      input(
        [{ type: 'reasoning', id }, { type: 'reasoning', id: 'rs_b', encrypted_content: 'x' }, user()],
        [{ type: 'reasoning', id: 'rs_b', encrypted_content: 'x' }, user()],
      ),
    item_id_duplicate: (id) =>
      input(
        [
          { ...user('a'), id },
          { ...user('b'), id },
        ],
        [{ ...user('a'), id }, user('b')],
      ),
    item_id_malformed: (id) =>
      input(
        [
          { ...call('a'), type: 'custom_tool_call', id },
          { type: 'custom_tool_call_output', call_id: 'a', output: '' },
        ],
        [
          { ...call('a'), type: 'custom_tool_call' },
          { type: 'custom_tool_call_output', call_id: 'a', output: '' },
        ],
      ),
  },
  gemini: {
    call_without_result: () =>
      contents([says(), model(asks('f'), asks('g')), { role: 'user', parts: [responds('g')] }], [says(), model(asks('f'), asks('g')), { role: 'user', parts: [responds('g'), responds('f', { error: UNKNOWN })] }]), // prettier-ignore
    call_misplaced: () => contents([model(asks()), { role: 'user', parts: [responds()] }, says()], [says()]),
    content_empty: () => contents([says(), model(), says('b')], [says(), says('b')]),
    thought_signature_missing: () =>
      contents(
        [says(), model(asks()), { role: 'user', parts: [responds()] }, says('b'), model(asks(), asks()), { role: 'user', parts: [responds(), responds()] }], // prettier-ignore
        [says(), model(asks()), { role: 'user', parts: [responds()] }, says('b'), model(asks('f', { thoughtSignature: 'skip_thought_signature_validator' }), asks()), { role: 'user', parts: [responds(), responds()] }], // prettier-ignore
      ),
  },
}

/** The id that a refusal names, if its request has to have it. */
const idIn = (body: string): string =>
  /\b(?:toolu_|srvtoolu_|call_|bash-|rs_|msg_|fc_|item_|view_image:)\w+/.exec(body)?.[0] ?? 'call_1'

const NOT_REPAIRED: Readonly<Record<string, string>> = {
  prefill_refused: 'the agent has to end its request with the user',
  not_history: 'an option',
  generation_failed: 'sampling failed: it is asked for again',
  response_unknown: 'the history is at the provider',
  tools_undeclared: 'what the tools are, only the agent knows',
  none: 'no broken history',
}

for (const sample of SAMPLES) {
  const { provider, api, cause, status, body } = sample
  const title = `${provider}, ${api}: ${cause}: ${body.replaceAll(/[\\"`]/g, '').slice(0, 110)}`
  const made = CASES[api]?.[cause]?.(idIn(body))
  const isConverse = api === 'bedrock-converse'
  if (cause in NOT_REPAIRED || isConverse || !sample.repairable || cause === 'image_too_large' || body.includes('Image generation') || cause === 'thought_signature_invalid' || body.includes('after role')) continue // prettier-ignore
  test(`repaired: ${title}`, () => {
    assert.ok(made !== undefined, 'a case is missing')
    const repair = repairOf(api, JSON.stringify(made.broken))
    assert.ok(isHistoryStatus(status, cause as 'item_unknown'))
    assert.ok(repair.refused(status, parsed(body)))
    assert.deepEqual(JSON.parse(Buffer.concat(repair.body).toString()), made.whole)
    assert.equal(repair.notes[0]?.cause, cause)
    assert.ok(!repair.refused(status, parsed(body)) || cause === 'thinking_missing', 'only once')
    assert.ok(!repairOf(api, JSON.stringify(made.whole)).refused(status, parsed(body)), 'not if it is right')
  })
}

test('a refusal that no edit can answer stays unanswered, whatever the request', () => {
  const left = SAMPLES.filter(({ cause, repairable }) => !repairable || cause in NOT_REPAIRED)
  assert.equal(left.length, 16)
  const broken = Object.entries(CASES).flatMap(([api, cases]) =>
    Object.entries(cases).map(([cause, make]) => ({ api, cause, ...make('call_xxx') })),
  )
  for (const { api, body, status, cause } of left)
    for (const one of broken) {
      if (
        one.api !== api ||
        one.cause === cause ||
        (one.cause.startsWith('result_') && cause === 'call_without_result')
      )
        continue // its own defect is in there: the sentence is about another one of that kind
      assert.ok(
        !repairOf(one.api, JSON.stringify(one.broken)).refused(status, parsed(body)),
        `${one.api} ${one.cause}: ${body}`,
      )
    }
})

test('calls whose result is more than text are left to the agent', () => {
  for (const type of ['local_shell_call', 'shell_call', 'apply_patch_call', 'computer_call', 'tool_search_call']) {
    const told = JSON.stringify({
      error: { message: `No tool output found for ${type.replaceAll('_', ' ')} call_xxx` },
    })
    assert.equal(repaired('openai-responses', { input: [{ type, call_id: 'call_xxx' }, user()] }, told), undefined)
    const both = [call('a'), { type, call_id: 'call_xxx' }, user()]
    const aboutCall = JSON.stringify({ error: { message: 'No tool output found for function call a.' } })
    assert.equal(repaired('openai-responses', { input: both }, aboutCall), undefined)
  }
  const approval = [{ type: 'mcp_approval_request', id: 'mcpr_1' }, user()]
  assert.equal(repaired('openai-responses', { input: approval }, JSON.stringify({ error: 'No tool output found for function call mcpr_1.' })), undefined) // prettier-ignore
})

test('a result that comes later is moved up to its call, and its bytes stay', () => {
  const body = `{"messages":[{"role":"user","content":"a"},\n {"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{"n":1.0,"n":12345678901234567890}}]},{"role":"user","content":"wait"},{"role":"assistant","content":"ok"},{"role":"user","content":[{"tool_use_id":"x","type":"tool_result","content":"\\u00e9\\/"},{"type":"text","text":"b"}]}]}`
  const repair = repairOf('anthropic-messages', body)
  assert.ok(repair.refused(400, parsed(SAMPLES[0]?.body ?? '')))
  assert.equal(
    Buffer.concat(repair.body).toString(),
    body
      .replace('"content":"wait"', '"content":[{"tool_use_id":"x","type":"tool_result","content":"\\u00e9\\/"},{"type":"text","text":"wait"}]') // prettier-ignore
      .replace('[{"tool_use_id":"x","type":"tool_result","content":"\\u00e9\\/"},{"type":"text","text":"b"}]', '[{"type":"text","text":"b"}]'), // prettier-ignore
  )
})

test('images over the named limit go, in messages and in results, and others stay', () => {
  const at = (limit: string): readonly string[] => {
    const told = JSON.stringify({ error: { message: `messages.0.content.0.image.source.base64: ${limit}` } })
    const { broken } = CASES['anthropic-messages']?.['image_too_large']?.('') ?? { broken: {} }
    return JSON.stringify(repaired('anthropic-messages', broken, told) ?? '').match(/\[An image [^\]]*\]/g) ?? []
  }
  const over = (what: string): string => `[An image (${what}) was left out: it is over the provider's limit.]`
  assert.deepEqual(at('At least one of the image dimensions exceed max allowed size: 8000 pixels'), [
    over('9000x10, 32 bytes'),
    over('10x9000, 32 bytes'),
  ])
  assert.deepEqual(at('image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes'), [over('6000000 bytes')])
  assert.deepEqual(at('At least one of the image dimensions exceed max allowed size: 9000 pixels'), [])
})

test('an assistant message comes between a tool and the user where the server wants one', () => {
  const told = SAMPLES.find(({ body }) => body.includes('after role'))?.body ?? ''
  assert.deepEqual(repaired('openai-chat', { messages: [user(), calls('a'), tool('a'), user('b')] }, told), {
    messages: [user(), calls('a'), tool('a'), { role: 'assistant', content: '(The step was interrupted.)' }, user('b')],
  })
})

test('an image item without an id always gets the same id', () => {
  const told = SAMPLES.find(({ body }) => body.includes('Image generation'))?.body ?? ''
  const ids = [1, 2].map(() => repaired('openai-responses', { input: [{ type: 'image_generation_call', result: 'x' }] }, told).input[0].id) // prettier-ignore
  assert.match(ids[0], /^ig_[0-9a-f]{32}$/)
  assert.equal(ids[0], ids[1])
})

test('a signature that is called corrupt is sent once more, then replaced', () => {
  const told = SAMPLES.find(({ cause }) => cause === 'thought_signature_invalid')?.body ?? ''
  const request = {
    contents: [says(), model({ text: 'a', thoughtSignature: 'bad' }, asks('f', { thoughtSignature: 'bad' })), { role: 'user', parts: [responds()] }], // prettier-ignore
  }
  assert.deepEqual(repaired('gemini', request, told), request)
  assert.deepEqual(repaired('gemini', request, told, told).contents[1], model({ text: 'a' }, asks('f', { thoughtSignature: 'skip_thought_signature_validator' }))) // prettier-ignore
})

test('thoughts that are missing are empty first, then a blank', () => {
  const told = SAMPLES.find(({ cause }) => cause === 'thinking_missing')?.body ?? ''
  const request = { messages: [user(), calls('a'), tool('a')] }
  assert.equal(repaired('openai-chat', request, told, told).messages[1].reasoning_content, ' ')
  assert.equal(repaired('openai-chat', request, told, told, told), undefined)
})

test('a call that only the provider knows gets its result where the request begins', () => {
  const told = JSON.stringify({ error: { message: 'No tool output found for function call call_9.' } })
  assert.deepEqual(repaired('openai-responses', { previous_response_id: 'resp_1', input: [user()] }, told).input, [
    output('call_9', UNKNOWN),
    user(),
  ])
  assert.equal(repaired('openai-responses', { input: [user()] }, told), undefined, 'nothing is stored')
})

test('a compaction is the history itself, so reasoning that cannot be decrypted stays', () => {
  const told = SAMPLES.find(({ cause }) => cause === 'reasoning_undecryptable')?.body ?? ''
  const items = [{ type: 'compaction', encrypted_content: 'x' }, { type: 'reasoning', encrypted_content: 'y' }, user()]
  assert.equal(repaired('openai-responses', { input: items }, told), undefined)
})

test('what servers read in different ways is not repaired', () => {
  const told = SAMPLES[0]?.body ?? ''
  const open = '{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]}'
  const bodies = [
    `{"messages":[${open}],"messages":[]}`,
    `{"messages":[${open.replace('"role"', '"role":"user","role"')},{"role":"user","content":"a"}]}`,
    `{"messages":[${open},{"role":"user","content":"a"}`,
    `{"messages":[${open},]}`,
    `{"messages":[${open},"text"]}`,
    `{"messages":{"0":${open}}}`,
    `[${open}]`,
    '',
  ]
  for (const body of bodies) assert.ok(!repairOf('anthropic-messages', body).refused(400, parsed(told)), body)
})

test('each cause is repaired once, and no request more than three times', () => {
  const told = (cause: string): string => SAMPLES.find((one) => one.cause === cause && one.api === 'anthropic-messages')?.body ?? '' // prettier-ignore
  const body = {
    messages: [
      user(),
      assistant(thought, use('toolu_01Y1n5eWKMq86btpFwtY3Z7V')),
      user('a'),
      { role: 'assistant', content: 'b ' },
    ],
  }
  const repair = repairOf('anthropic-messages', JSON.stringify(body))
  assert.ok(repair.refused(400, parsed(told('call_without_result'))))
  assert.ok(!repair.refused(400, parsed(told('call_without_result'))))
  assert.ok(repair.refused(400, parsed(told('thinking_unbound'))), 'the insertion unbinds what comes later')
  assert.ok(repair.refused(400, parsed(told('trailing_space'))))
  assert.ok(!repair.refused(400, parsed(told('thinking_altered'))))
  assert.deepEqual(
    repair.notes.map(({ cause, place }) => [cause, place]),
    [
      ['call_without_result', 'messages.1'],
      ['thinking_unbound', 'messages.1'],
      ['trailing_space', 'messages.3'],
    ],
  )
})

// ---- the rest of the conversation ----

const OPEN = [user(), assistant(thought, use('x')), user('a')]
const LATER = [assistant(thought, text('b')), user('c')]
const bodyOf = (...list: readonly object[]): string => JSON.stringify({ model: 'm', messages: list })
const REFUSED = parsed(SAMPLES[0]?.body ?? '')
const UNBOUND = parsed(SAMPLES.find(({ cause }) => cause === 'thinking_unbound')?.body ?? '')

function known(now: () => number = () => 1): { conversations: Conversations; sent: string } {
  const conversations = new Conversations(now)
  const first = repairOf('anthropic-messages', bodyOf(...OPEN), conversations)
  assert.ok(first.refused(400, REFUSED) && first.refused(400, UNBOUND))
  first.taken()
  return { conversations, sent: Buffer.concat(first.body).toString() }
}

test('the next request of a repaired conversation is repaired before it goes out, and keeps the thoughts made since', () => {
  const { conversations, sent } = known()
  const next = repairOf('anthropic-messages', bodyOf(...OPEN, ...LATER), conversations)
  const body = Buffer.concat(next.body).toString()
  assert.ok(body.startsWith(sent.slice(0, -2)), 'the same bytes, which the prompt cache and thoughts need')
  assert.equal(body.split('"thinking"').length - 1, 2, 'its type and its text: one thought')
  assert.deepEqual(
    next.notes.map(({ cause, isKnown }) => [cause, isKnown]),
    [
      ['call_without_result', true],
      ['thinking_unbound', true],
    ],
  )
})

test('an edited beginning, another server and an hour later are not repaired from memory', () => {
  let now = 1
  const { conversations } = known(() => now)
  const plain = (list: readonly object[], key = 'k'): boolean => {
    const client = bodyOf(...list)
    const api = 'anthropic-messages'
    const repair = new RequestRepair([Buffer.from(client)], { api, key, conversations, memory: unboundedShare() })
    return Buffer.concat(repair.body).toString() === client
  }
  assert.ok(!plain([...OPEN, ...LATER]))
  assert.ok(plain([user('other'), ...OPEN.slice(1), ...LATER]))
  assert.ok(plain([...OPEN, ...LATER], 'another server'))
  now += 3_600_000 - 1
  assert.ok(!plain([...OPEN, ...LATER]), 'each request makes it last')
  now += 3_600_000 - 1
  assert.ok(!plain([...OPEN, ...LATER]))
  now += 3_600_001
  assert.ok(plain([...OPEN, ...LATER]))
  assert.equal(conversations.size, 0)
})

test('a repair from memory that is refused is forgotten, and the client’s own bytes go out', () => {
  const { conversations } = known()
  const client = bodyOf(...OPEN, ...LATER)
  const next = repairOf('anthropic-messages', client, conversations)
  assert.ok(next.refused(400, 'anything'))
  assert.equal(Buffer.concat(next.body).toString(), client)
  assert.deepEqual([next.notes, conversations.size], [[], 0])
  assert.ok(next.refused(400, REFUSED), 'and judged as if nothing was known')
})

test('a request that is not refused is not read for this, whatever other conversations were repaired', () => {
  const { conversations } = known()
  const unread = new Proxy<Buffer[]>([], {
    get: () => assert.fail('the body is read'),
  })
  const options = { api: 'anthropic-messages', conversations, memory: unboundedShare() } as const
  const other = new RequestRepair(unread, { ...options, key: 'another server or model' })
  assert.equal(other.body, unread)
  assert.ok(!other.taken())
  assert.ok(!other.refused(429, 'slow down'))
})

test('however many conversations break, the memory for them is bounded', () => {
  const conversations = new Conversations(() => 1)
  for (let at = 0; at < 1_000; at++) {
    const repair = repairOf('anthropic-messages', bodyOf(user(`conversation ${at}`), ...OPEN), conversations)
    assert.ok(repair.refused(400, REFUSED))
    repair.taken()
  }
  assert.equal(conversations.size, 256)
  const long = 'x'.repeat(300_000)
  const moved = [user(), assistant(use('x')), user('a'), assistant(text('b')), user([result('x', long)])]
  const repair = repairOf('anthropic-messages', bodyOf(...moved), new Conversations(() => 1))
  assert.ok(repair.refused(400, REFUSED))
  const few = new Conversations(() => 1)
  const kept = repairOf('anthropic-messages', bodyOf(...moved), few)
  assert.ok(kept.refused(400, REFUSED))
  kept.taken()
  assert.equal(few.size, 0, 'its edits are too long to be kept')
})
