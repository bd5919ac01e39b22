/** Streams that once came out wrong, made as small as they can be. */
import { type Case, type Frame, type Json, PLAIN, type Script, type Style } from './case.ts'
import { encoded } from './wire.ts'

export type Regression = { readonly name: string; readonly made: Case }

const sse = (json: Json): Frame => ({ data: JSON.stringify(json) })
const named = (json: Json): Frame => ({ event: String(json['type']), data: JSON.stringify(json) })
const DONE: Frame = { data: '[DONE]' }

const whole = (frames: readonly Frame[]): Script => ({ frames, style: PLAIN })

/** The connection breaks after so many frames. */
function cut(frames: readonly Frame[], after: number): Script {
  const at = frames
    .slice(0, after)
    .reduce(
      (sum, { event, data }) =>
        sum + Buffer.byteLength(`${event === undefined ? '' : `event: ${event}\n`}data: ${data}\n\n`),
      0,
    )
  return { frames, style: PLAIN, cut: { how: 'fin', at } }
}

/** With CRLF line ends, and the connection breaks before the last bytes. */
function crlf(frames: readonly Frame[], missing: number): Script {
  const style: Style = { ...PLAIN, lineEnd: '\r\n' }
  return { frames, style, cut: { how: 'reset', at: encoded(frames, style).bytes.length - missing } }
}

// ---- chat ----

const chunk = (delta: Json, finish_reason: string | null = null, index = 0): Frame =>
  sse({ id: 'a', created: 1, model: 'm', choices: [{ index, delta, finish_reason }] })
const role = chunk({ role: 'assistant' })
const usage = sse({ id: 'a', created: 1, model: 'm', choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } })
const call = (index: number): Json => ({
  index,
  id: `call_${index}`,
  type: 'function',
  function: { name: 'ls', arguments: '{"path":"a"}' },
})

const chat = (name: string, attempts: readonly Script[], more: Json = {}): Regression => ({
  name: `chat: ${name}`,
  made: {
    api: 'openai-chat',
    setting: { hold: 'tools' },
    path: '/v1/chat/completions',
    body: { model: 'm', stream: true, messages: [{ role: 'user', content: 'x' }], ...more },
    attempts,
  },
})

const words = [role, chunk({ content: 'I will ' }), chunk({ content: 'look.' })]

// ---- Gemini ----

const parts = (list: readonly Json[], finishReason?: string): Frame =>
  sse({
    candidates: [
      { content: { parts: list, role: 'model' }, index: 0, ...(finishReason === undefined ? {} : { finishReason }) },
    ],
    responseId: 'r',
    modelVersion: 'm',
  })
const functionCall = (path: string): Json => ({ functionCall: { name: 'ls', args: { path } } })

const gemini = (name: string, attempts: readonly Script[]): Regression => ({
  name: `Gemini: ${name}`,
  made: {
    api: 'gemini',
    setting: { hold: 'tools' },
    path: '/v1beta/models/m:streamGenerateContent?alt=sse',
    body: { contents: [] },
    attempts,
  },
})

// ---- Anthropic ----

const block = (index: number, start: Json, ...deltas: readonly Json[]): readonly Frame[] => [
  named({ type: 'content_block_start', index, content_block: start }),
  ...deltas.map((delta) => named({ type: 'content_block_delta', index, delta })),
  named({ type: 'content_block_stop', index }),
]
const message = (...blocks: readonly (readonly Frame[])[]): readonly Frame[] => [
  named({
    type: 'message_start',
    message: { id: 'x', type: 'message', role: 'assistant', content: [], usage: { input_tokens: 1, output_tokens: 1 } },
  }),
  ...blocks.flat(),
  named({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5 } }),
  named({ type: 'message_stop' }),
]
const text = (start: string, ...deltas: readonly string[]): readonly Frame[] =>
  block(0, { type: 'text', text: start }, ...deltas.map((more) => ({ type: 'text_delta', text: more })))

const thoughts = (thinking: string, signature: string, index = 0): readonly Frame[] =>
  block(
    index,
    { type: 'thinking', thinking: '', signature: '' },
    { type: 'thinking_delta', thinking },
    { type: 'signature_delta', signature },
  )

/** More than the limit of a held answer as events, and less as text. */
const LONG = text('', ...Array.from({ length: 60 }, () => 'a'))
const textAt = (index: number): readonly Frame[] =>
  block(index, { type: 'text', text: '' }, { type: 'text_delta', text: 'b' })
const NEAR = message(LONG, textAt(1))
const FAR = message(LONG, thoughts('hm', 'one', 1), textAt(2))

const anthropic = (
  name: string,
  attempts: readonly Script[],
  setting: Case['setting'] = { hold: 'tools' },
): Regression => ({
  name: `Anthropic: ${name}`,
  made: {
    api: 'anthropic-messages',
    setting,
    path: '/v1/messages',
    body: { model: 'm', stream: true, max_tokens: 9, messages: [] },
    attempts,
  },
})

// ---- Responses ----

/** One message whose parts come in one delta each, or in several. */
function response(id: string, texts: readonly (string | readonly string[])[]): readonly Frame[] {
  const begun = { id: `resp_${id}`, object: 'response', status: 'in_progress', output: [] }
  const item = {
    id: `msg_${id}`,
    type: 'message',
    role: 'assistant',
    status: 'completed',
    content: texts.map((one) => ({ type: 'output_text', text: [one].flat().join(''), annotations: [] })),
  }
  const events: Json[] = [
    { type: 'response.created', response: begun },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, status: 'in_progress', content: [] } },
    ...item.content.flatMap((part, content_index) => {
      const at = { item_id: item.id, output_index: 0, content_index }
      return [
        { type: 'response.content_part.added', ...at, part: { ...part, text: '' } },
        ...[texts[content_index] ?? ''].flat().map((delta) => ({ type: DELTA, ...at, delta, logprobs: [] })),
        { type: 'response.output_text.done', ...at, text: part.text, logprobs: [] },
        { type: 'response.content_part.done', ...at, part },
      ]
    }),
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: { ...begun, status: 'completed', output: [item] } },
  ]
  return numbered(events)
}

const DELTA = 'response.output_text.delta'

const numbered = (events: readonly Json[]): readonly Frame[] =>
  events.map((event, sequence_number) => named({ ...event, sequence_number }))

/** Thoughts that grow while a search ends: what came until then goes out. */
function thinking(): readonly Frame[] {
  const begun = { id: 'resp_1', object: 'response', status: 'in_progress', output: [] }
  const item = {
    id: 'rs_1',
    type: 'reasoning',
    summary: [{ type: 'summary_text', text: 'ab' }],
    encrypted_content: 's',
  }
  const search = { id: 'ws_1', type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'x' } }
  const delta = { type: 'response.reasoning_summary_text.delta', item_id: 'rs_1', output_index: 0, summary_index: 0 }
  return numbered([
    { type: 'response.created', response: begun },
    { type: 'response.output_item.added', output_index: 0, item: { id: 'rs_1', type: 'reasoning', summary: [] } },
    { ...delta, delta: 'a' },
    { type: 'response.output_item.added', output_index: 1, item: { ...search, status: 'in_progress' } },
    { type: 'response.output_item.done', output_index: 1, item: search },
    { ...delta, delta: 'b' },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: { ...begun, status: 'completed', output: [item, search] } },
  ])
}

/** With a sign of life before each event but the first. */
const lively = (frames: readonly Frame[]): readonly Frame[] =>
  numbered(
    frames.flatMap(({ data }, at) => {
      const progress = { type: 'response.in_progress', response: { id: 'resp_1', status: 'in_progress', output: [] } }
      return [...(at === 0 ? [] : [progress]), JSON.parse(data) as Json]
    }),
  )

const responses = (name: string, attempts: readonly Script[]): Regression => ({
  name: `Responses: ${name}`,
  made: {
    api: 'openai-responses',
    setting: { hold: 'tools' },
    path: '/v1/responses',
    body: { model: 'm', stream: true, input: 'x' },
    attempts,
  },
})

/** One whole answer. */
export const SIX_WORDS: Case = responses('', [whole(response('1', [['a ', 'b ', 'c ', 'd ', 'e ', 'f']]))]).made

export const REGRESSIONS: readonly Regression[] = [
  chat('a call that comes with the last repeated text is not lost', [
    cut([...words, chunk({}, 'stop'), DONE], 3),
    whole([
      role,
      chunk({ content: 'I will ' }),
      chunk({ content: 'look.', tool_calls: [call(0)] }),
      chunk({ tool_calls: [call(1)] }),
      chunk({}, 'tool_calls'),
      DONE,
    ]),
  ]),
  chat('a call that starts in the frame of the last repeated text has its id and its name', [
    cut([...words, chunk({}, 'stop'), DONE], 3),
    whole([
      role,
      chunk({
        content: 'I will look.',
        tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'ls', arguments: '' } }],
      }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: '{}' } }] }),
      chunk({}, 'tool_calls'),
      DONE,
    ]),
  ]),
  chat('a function call of the old form that comes with repeated text is not lost', [
    cut([role, chunk({ content: 'ok' }), chunk({}, 'stop'), DONE], 2),
    whole([
      role,
      chunk({ content: 'ok', function_call: { name: 'ls', arguments: '{}' } }),
      chunk({}, 'function_call'),
      DONE,
    ]),
  ]),
  chat(
    'an answer whose usage was cut off does not end as if there were none',
    [cut([...words, chunk({}, 'stop'), usage, DONE], 4)],
    { stream_options: { include_usage: true } },
  ),
  chat('the role comes once, whatever comes with it in another attempt', [
    cut([...words, chunk({}, 'stop'), DONE], 2),
    whole([chunk({ role: 'assistant', x: 0 }), ...words.slice(1), chunk({}, 'stop'), DONE]),
  ]),
  chat('the role that another attempt gave comes once', [
    cut([...words.slice(1), chunk({}, 'stop'), DONE], 1),
    cut([chunk({ role: 'assistant', content: 'I will look' }), chunk({ content: '.' }), chunk({}, 'stop'), DONE], 1),
    whole([chunk({ role: 'assistant', x: 0 }), ...words.slice(1), chunk({}, 'stop'), DONE]),
  ]),
  chat(
    'the text of one choice never counts as that of another',
    [
      cut(
        [
          chunk({ content: 'a' }),
          chunk({ content: 'a' }),
          chunk({}, 'stop'),
          chunk({ content: 'b' }, null, 1),
          chunk({}, 'stop', 1),
          DONE,
        ],
        2,
      ),
      whole([
        chunk({ content: 'a' }),
        chunk({ content: 'a' }, null, 1),
        chunk({ content: 'a' }),
        chunk({}, 'stop', 1),
        chunk({}, 'stop'),
        DONE,
      ]),
    ],
    { n: 2 },
  ),
  gemini('a call that comes with the last repeated text is not lost', [
    cut([parts([{ text: 'I will ' }, { text: 'look.' }]), parts([{ text: '' }], 'STOP')], 1),
    whole([
      parts([{ text: 'I will ' }]),
      parts([{ text: 'look.' }, functionCall('a')]),
      parts([functionCall('b')]),
      parts([{ text: '' }], 'STOP'),
    ]),
  ]),
  gemini('the parts of a chunk keep their order', [
    cut([parts([{ text: 'I' }]), parts([{ text: ' look.' }], 'STOP')], 1),
    whole([parts([{ text: 'I' }, { executableCode: { language: 'PYTHON', code: 'x' } }, { text: ' look.' }], 'STOP')]),
  ]),
  gemini('a signature on repeated text reaches the client', [
    cut([parts([{ text: 'Hel' }, { text: 'lo' }]), parts([{ text: '!' }], 'STOP')], 1),
    whole([parts([{ text: 'Hello', thoughtSignature: 'sig' }]), parts([{ text: '!' }], 'STOP')]),
  ]),
  gemini('a signature comes where it belongs, whatever was signed before', [
    cut(
      [parts([{ text: 'a' }, { text: 'b', thoughtSignature: 'one' }]), parts([{ text: 'c', thought: true }], 'STOP')],
      1,
    ),
    whole([
      parts([{ text: 'a', thoughtSignature: 'two' }]),
      parts([{ text: 'b', thoughtSignature: 'three' }]),
      parts([{ text: 'cd', thought: true }], 'STOP'),
    ]),
  ]),
  gemini('a signature at the end of a text that was signed before its end is not lost', [
    cut([parts([{ text: 'a', thoughtSignature: 'one' }]), parts([{ text: 'b' }], 'STOP')], 1),
    whole([parts([{ text: 'ab', thoughtSignature: 'two' }], 'STOP')]),
  ]),
  gemini('a signature that came in an empty part is not counted as another', [
    cut([parts([{ text: 'a' }]), parts([{ text: 'b' }]), parts([{ text: 'c' }], 'STOP')], 1),
    cut(
      [
        parts([{ text: 'a' }]),
        parts([{ text: '', thoughtSignature: 'one' }]),
        parts([{ text: 'b' }]),
        parts([{ text: 'c' }], 'STOP'),
      ],
      3,
    ),
    whole([
      parts([{ text: 'a', thoughtSignature: 'two' }]),
      parts([{ text: 'bc', thoughtSignature: 'three' }], 'STOP'),
    ]),
  ]),
  gemini('a text that was signed before its end keeps that signature once thoughts follow it', [
    cut(
      [
        parts([{ text: 'a', thoughtSignature: 'one' }]),
        parts([{ text: 'b' }]),
        parts([{ text: 'c', thought: true }]),
        parts([{ text: 'd', thought: true }], 'STOP'),
      ],
      3,
    ),
    whole([parts([{ text: 'ab', thoughtSignature: 'two' }]), parts([{ text: 'cd', thought: true }], 'STOP')]),
  ]),
  gemini('thoughts that the client has without a signature stay without one once text follows them', [
    cut([parts([{ text: 'a', thought: true }]), parts([{ text: 'b' }]), parts([{ text: 'c' }], 'STOP')], 2),
    whole([parts([{ text: 'a', thought: true, thoughtSignature: 'one' }]), parts([{ text: 'bc' }], 'STOP')]),
  ]),
  gemini('thoughts that were signed in an attempt that never arrived may stay unsigned', [
    {
      ...whole([parts([{ text: 'a', thought: true, thoughtSignature: 'one' }]), parts([{ text: 'bc' }], 'STOP')]),
      style: { ...PLAIN, encoding: 'gzip' },
      cut: { how: 'reset', at: 0 },
    },
    cut([parts([{ text: 'a', thought: true }]), parts([{ text: 'b' }]), parts([{ text: 'c' }], 'STOP')], 2),
    whole([parts([{ text: 'a', thought: true, thoughtSignature: 'one' }]), parts([{ text: 'bc' }], 'STOP')]),
  ]),
  gemini('a call keeps its signature, also after text that has none', [
    cut([parts([{ text: 'a', thought: true }]), parts([{ text: 'b' }]), parts([{ text: '' }], 'STOP')], 2),
    whole([
      parts([{ text: 'a', thought: true, thoughtSignature: 'one' }]),
      parts([{ text: 'b' }, { ...functionCall('a'), thoughtSignature: 'two' }], 'STOP'),
    ]),
  ]),
  gemini('what another attempt ran before text that the client has is never put behind it', [
    cut([parts([{ text: 'a' }]), parts([{ text: 'b' }], 'STOP')], 1),
    whole([parts([{ executableCode: { language: 'PYTHON', code: 'x' } }]), parts([{ text: 'a' }], 'STOP')]),
  ]),
  gemini('a call without arguments that the token limit ended is refused', [
    whole([parts([functionCall('a'), { functionCall: { name: 'ls', args: {} } }], 'MAX_TOKENS')]),
  ]),
  anthropic('an event is whole once a carriage return ends its empty line', [
    crlf(message(text('', 'Hello')), 1),
    whole(message(text('', 'Hello'))),
  ]),
  anthropic('the last event of a stream whose lines end with CR is read', [
    { ...whole(message(text('', 'Hello'))), style: { ...PLAIN, lineEnd: '\r' } },
  ]),
  anthropic('text in the start of a block is not sent twice', [
    cut(message(text('', 'Hello ', 'wor', 'ld!')), 4),
    whole(message(text('Hello world', '!'))),
  ]),
  anthropic(
    'a block that the client has open and empty gets the text of another attempt',
    [cut(FAR, FAR.length - 4), whole(FAR)],
    { hold: 'answer', limit: 'hold 6000 bytes' },
  ),
  anthropic(
    'a block that the client has open and empty is not the block before it, of the same kind',
    [cut(NEAR, NEAR.length - 4), whole(NEAR)],
    { hold: 'answer', limit: 'hold 6000 bytes' },
  ),
  anthropic('thoughts that were cut before their signature get that of another attempt, which came as one document', [
    cut(message(thoughts('hm', 'one')), 3),
    {
      ...whole(message(block(0, { type: 'thinking', thinking: 'hm', signature: 'two' }))),
      whole: {
        id: 'y',
        type: 'message',
        role: 'assistant',
        content: [{ type: 'thinking', thinking: 'hm', signature: 'two' }],
        stop_reason: 'end_turn',
        usage: { output_tokens: 5 },
      },
    },
  ]),
  {
    name: 'Responses: what does not fit a closed message is not read on past',
    made: {
      api: 'openai-responses',
      setting: { hold: 'tools' },
      path: '/v1/responses',
      body: { model: 'm', stream: true, input: 'x', background: true },
      attempts: [
        { ...cut(response('1', ['a']), 7), background: { cuts: [0], isTooOld: false, polls: 0 } },
        { ...whole(response('2', ['a', 'b'])), background: { cuts: [], isTooOld: false, polls: 0 } },
      ],
    },
  },
  responses('every sign of life of a server reaches the client', [whole(lively(response('1', [['a', 'b']])))]),
  responses('two parts that come again as one are whole in the final object', [
    cut(response('1', ['Delete nothing. ', 'Keep all files.']), 8),
    whole(response('2', ['Delete nothing. Keep all files.'])),
  ]),
  responses('one part that comes again as two is there once in the final object', [
    cut(response('1', ['Delete nothing. Keep all files.']), 4),
    whole(response('2', ['Delete nothing. ', 'Keep all files.'])),
  ]),
  responses('thoughts that were cut and come again under their id are whole, with what signs them', [
    cut(thinking(), 5),
    whole(thinking()),
  ]),
  gemini('a call with streamed arguments arrives whole', [
    whole([
      parts([{ functionCall: { name: 'ls', willContinue: true } }]),
      parts([{ functionCall: { partialArgs: [{ jsonPath: '$.path', stringValue: 'a' }], willContinue: true } }]),
      parts([{ functionCall: {} }]),
      parts([{ text: '' }], 'STOP'),
    ]),
  ]),
  chat(
    'a call that lacks a required parameter arrives',
    [whole([role, chunk({ tool_calls: [call(0)] }), chunk({}, 'tool_calls'), DONE])],
    { tools: [{ type: 'function', function: { name: 'ls', parameters: { required: ['k0'] } } }] },
  ),
]
