/** The model APIs, one row each. */
import { Fault, type FaultClass, FAULTS } from '@breakfall/faults'
import { encodeSse, type SseFrame } from '@breakfall/wire'
import { EXCEPTION } from '../lib/event-stream.ts'
import { isObject, type JsonObject, objectOr, objectsIn, parsedOr } from '../lib/json.ts'
import { API_NAMES, type RelayApiName } from '../contract/names.ts'
import { anthropicBody } from './anthropic-body.ts'
import { AnthropicMessagesDecoder } from './anthropic-decoder.ts'
import { AnthropicShape } from './anthropic-shape.ts'
import type { Dialect } from './dialect.ts'
import { GeminiDecoder } from './gemini-decoder.ts'
import { GeminiShape } from './gemini-shape.ts'
import { OllamaDecoder, OllamaShape } from './ollama.ts'
import { openAiBody, withPrefill } from './openai-body.ts'
import { OpenAiChatDecoder } from './openai-decoder.ts'
import { OpenAiShape } from './openai-shape.ts'
import { responsesBody } from './responses-body.ts'
import { ResponsesDecoder, withType } from './responses-decoder.ts'
import { responseFrames } from './responses-frames.ts'
import { ResponsesShape } from './responses-shape.ts'
import { chatFrames, messageFrames } from './whole-answer.ts'

const DONE_FRAME = 'data: [DONE]\n\n'

function jsonOf({ data }: SseFrame): JsonObject | undefined {
  const json = parsedOr(data)
  return isObject(json) ? json : undefined
}

const openAiChat: Dialect = {
  path: 'chat/completions',
  auth: (apiKey) => (apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  body: openAiBody,
  withPrefill,
  proof: 'finish_reason',
  reasoning: 'text',
  decoder: (...given) => new OpenAiChatDecoder(...given),
  framesOf: chatFrames,
  isOpening: (json) => objectOr(objectsIn(json?.['choices'])[0]?.['delta'])['role'] !== undefined,
  isBlockStart: () => false,
  shape: () => new OpenAiShape(),
  jsonOf,
  errorBody: ({ class: of, category: code, error: message }) => ({
    error: { message, type: OPENAI_ERROR_TYPE[of], param: null, code },
  }),
  reportedError: (frame) => frame,
  errorFrames: (body) => encodeSse({ data: JSON.stringify(body) }) + DONE_FRAME,
  afterError: DONE_FRAME,
}

const openAiResponses: Dialect = {
  ...openAiChat,
  path: 'responses',
  body: responsesBody,
  withPrefill: undefined, // an unfinished assistant message is not continued
  proof: 'end_event',
  reasoning: 'item',
  decoder: (handler, nextPartId, { profile }) => new ResponsesDecoder(handler, nextPartId, profile),
  framesOf: responseFrames,
  isOpening: () => false, // the shape leaves a second `response.created` out
  shape: () => new ResponsesShape(),
  jsonOf: (frame) => {
    const json = jsonOf(frame)
    return json === undefined ? undefined : withType(json, frame.event)
  },
  reportedError: (frame) => ({ error: reportedIn(frame) }),
  // Without a shape nothing was sent, so the numbers start here.
  errorFrames: (body) => encodeSse({ event: 'error', data: JSON.stringify(flatError(objectOr(body['error']))) }),
  afterError: '',
}

const anthropicMessages: Dialect = {
  path: 'messages',
  auth: (apiKey) => ({
    'anthropic-version': '2023-06-01',
    ...(apiKey === undefined ? {} : { 'x-api-key': apiKey }),
  }),
  body: anthropicBody,
  withPrefill: undefined, // removed with the 4.6 models, which reject it
  proof: 'end_event',
  reasoning: 'text',
  decoder: (...given) => new AnthropicMessagesDecoder(...given),
  framesOf: messageFrames,
  isOpening: () => false, // the shape leaves a second `message_start` out
  isBlockStart: (json) => json?.['type'] === 'content_block_start',
  shape: () => new AnthropicShape(),
  jsonOf,
  errorBody: ({ category: type, error: message }) => ({ type: 'error', error: { type, message } }),
  reportedError: (frame) => frame,
  errorFrames: (body) => encodeSse({ event: 'error', data: JSON.stringify(body) }),
  afterError: '',
}

/** Only relayed. The model is in the path, so each request has its own. */
const gemini: Dialect = {
  path: '',
  auth: (apiKey) => (apiKey === undefined ? {} : { 'x-goog-api-key': apiKey }),
  body: openAiBody,
  withPrefill: undefined,
  proof: 'body_end',
  reasoning: 'text',
  decoder: (...given) => new GeminiDecoder(...given),
  framesOf: (whole) => [{ data: JSON.stringify(whole) }],
  isOpening: () => false,
  isBlockStart: () => false,
  shape: () => new GeminiShape(),
  jsonOf,
  errorBody: ({ class: of, category, error: message }) => {
    const code = FAULTS[category].http
    const details = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: category, domain: 'breakfall' }]
    return { error: { code, message, status: GEMINI_STATUS[of], details } }
  },
  reportedError: (frame) => frame,
  errorFrames: (body) => encodeSse({ data: JSON.stringify(body) }),
  afterError: '',
}

/** Claude on Bedrock: Anthropic's events in AWS's frames, with AWS's errors. The model is in the path. */
const bedrockMessages: Dialect = {
  ...anthropicMessages,
  errorBody: ({ error: message }) => ({ message }),
  reportedError: ({ error }) => {
    const { type: _type, status: _status, ...payload } = objectOr(error)
    return payload
  },
  errorFrames: (error) => encodeSse({ event: EXCEPTION, data: JSON.stringify({ type: 'error', error }) }),
}

/** Ollama's own API, a line of JSON for each event. Only relayed. */
const ollama: Dialect = {
  ...gemini,
  auth: (apiKey) => (apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  proof: 'end_event',
  decoder: (handler, nextPartId) => new OllamaDecoder(handler, nextPartId),
  shape: () => new OllamaShape(),
  errorBody: ({ error }) => ({ error }),
}

export const DIALECTS: Readonly<Record<RelayApiName, Dialect>> = {
  'openai-chat': openAiChat,
  'openai-responses': openAiResponses,
  'anthropic-messages': anthropicMessages,
  gemini,
  'bedrock-messages': bedrockMessages,
  ollama,
}

/** The dialect of a name that may come from a caller without types. Throws `invalid_request` if there is none. */
export function dialectOf(api: RelayApiName): Dialect {
  if (Object.hasOwn(DIALECTS, api)) return DIALECTS[api]
  const expected = API_NAMES.join(', ')
  throw new Fault('invalid_request', {
    facts: { name: 'api', detail: `expected ${expected}, got ${api}` },
    errors: [{ field: 'api', expected, got: api }],
  })
}

// ---- details ----

const GEMINI_STATUS: Readonly<Record<FaultClass, string>> = {
  transient: 'UNAVAILABLE',
  throttled: 'RESOURCE_EXHAUSTED',
  needs_action: 'FAILED_PRECONDITION',
  invalid: 'INVALID_ARGUMENT',
  cancelled: 'CANCELLED',
  internal: 'INTERNAL',
  unknown_outcome: 'UNKNOWN',
}

const flatError = ({ code, message, param = null }: JsonObject): JsonObject => ({
  type: 'error',
  sequence_number: 0,
  code,
  message,
  param,
})

/** The error object of an `error` or `response.failed` event. */
function reportedIn(frame: JsonObject): JsonObject {
  const holder = isObject(frame['response']) ? frame['response'] : frame
  if (isObject(holder['error'])) return { type: 'server_error', param: null, ...holder['error'] }
  const { message, code = null, param = null } = holder
  return { message, type: 'server_error', param, code }
}

const OPENAI_ERROR_TYPE: Readonly<Record<FaultClass, string>> = {
  transient: 'server_error',
  throttled: 'server_error',
  needs_action: 'server_error',
  invalid: 'invalid_request_error',
  cancelled: 'server_error',
  internal: 'server_error',
  unknown_outcome: 'server_error',
}
