/**
 * What servers say when the conversation in a request is not a valid one: a tool call without its result, a thought that does not
 * verify, and so on. A server refuses such a request however often it is sent, and every later request of the conversation.
 *
 * The phrases are searched for in every string of the body, also in JSON inside strings: routers and clouds wrap the text of the provider
 * in their own. Case, quotes and back-ticks vary, so they are ignored. `fixtures/bad-requests.jsonl` has the message behind each phrase.
 */
import { isReadable } from './read.ts'

export const HISTORY_CAUSES = [
  'call_without_result',
  'result_without_call',
  'server_result_without_call',
  'result_misplaced',
  'result_duplicate',
  'call_duplicate',
  'call_misplaced',
  'call_id_malformed',
  'arguments_unparsable',
  'content_empty',
  'cache_mark_on_empty',
  'cache_marks_too_many',
  'roles_misordered',
  'trailing_space',
  'thinking_altered',
  'thinking_unverifiable',
  'thinking_unbound',
  'thinking_required',
  'thinking_missing',
  'reasoning_undecryptable',
  'reasoning_alone',
  'reasoning_detached',
  'item_unknown',
  'item_id_duplicate',
  'item_id_malformed',
  'thought_signature_missing',
  'thought_signature_invalid',
  'image_too_large',
] as const
export type HistoryCause = (typeof HISTORY_CAUSES)[number]

/** The cause that a refusal names, and the strings of its body: what it says about ids and places is in there. */
export type HistoryRefusal = { readonly cause: HistoryCause; readonly texts: readonly string[] }

/** Undefined if the body names none. `body`: parsed JSON, or text. */
export function historyRefusal(body: unknown): HistoryRefusal | undefined {
  const texts: string[] = []
  collect(body, texts, { chars: SEARCHED_CHARS_MAX, values: SEARCHED_VALUES_MAX }, 0)
  const plain = texts.map(plainText)
  const row = PHRASES.find(([, phrase]) => plain.some((text) => phrase.test(text)))
  return row === undefined ? undefined : { cause: row[0], texts }
}

/** Servers report some causes with a status that means something else. */
export function isHistoryStatus(status: number, cause: HistoryCause): boolean {
  if (status === 400 || status === 422 || status === 200) return true // 200: inside a stream
  if (status === 404) return cause === 'item_unknown' // OpenAI
  return status === 500 && cause === 'arguments_unparsable' // llama.cpp
}

// ---- details ----

const SEARCHED_CHARS_MAX = 64 * 1024
const SEARCHED_VALUES_MAX = 1_000
const DEPTH_MAX = 12
const JSON_CHARS_MAX = 64 * 1024

function collect(value: unknown, into: string[], room: { chars: number; values: number }, depth: number): void {
  if (room.chars <= 0 || room.values-- <= 0 || depth > DEPTH_MAX) return
  if (typeof value === 'string') {
    const inner = /^\s*[[{]/.test(value) && value.length <= JSON_CHARS_MAX ? parsed(value) : undefined
    if (inner !== undefined) return collect(inner, into, room, depth + 1)
    into.push(value.slice(0, room.chars))
    room.chars -= value.length
  } else if (isReadable(value)) for (const entry of Object.values(value)) collect(entry, into, room, depth + 1)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // text after a bracket
  }
}

const plainText = (text: string): string => text.replaceAll(/[`'"\\]/g, '').toLowerCase()

/** In plain text. The more exact phrase comes first. */
const PHRASES: readonly (readonly [HistoryCause, RegExp])[] = [
  ['call_without_result', /tool_use ids were found without tool_result blocks/], // Anthropic
  ['call_without_result', /must be followed by tool messages responding to each tool_call_id/], // OpenAI, DeepSeek, Moonshot, DashScope
  ['call_without_result', /no tool output found for (?:\w+ ){1,3}call \S/], // OpenAI's Responses
  ['call_without_result', /not the same number of function calls and responses/], // Mistral
  ['call_without_result', /number of function response parts is equal to the number of function call parts/], // Gemini
  ['call_without_result', /expected toolresult blocks at messages/], // Bedrock
  ['server_result_without_call', /unexpected tool_use_id found in \w+_tool_result blocks/],
  ['result_without_call', /unexpected tool_use_id found in tool_result blocks/],
  ['result_without_call', /messages with role tool must be a response to a prec?e+ding message with tool_calls/],
  ['result_without_call', /no tool call found for (?:\w+ ){1,3}call output/],
  ['result_without_call', /tool_call_id is not found/], // Moonshot
  ['result_without_call', /number of toolresult blocks at \S+ exceeds the number of tooluse blocks/], // Bedrock
  ['result_misplaced', /tool call result does not follow tool call/], // MiniMax
  ['result_duplicate', /each tool_use must have a single result/],
  ['call_duplicate', /tool_use ids must be unique/],
  ['call_misplaced', /function call turn comes immediately after a user turn/], // Gemini
  ['call_id_malformed', /must be a-z, a-z, 0-9, with a length of 9/], // Mistral
  ['arguments_unparsable', /failed to parse tool call arguments as json/], // llama.cpp
  ['arguments_unparsable', /function\.arguments parameter of the code model must be in json format/], // DashScope
  ['arguments_unparsable', /can only get item pairs from a mapping/], // templates of vLLM
  // Python's JSON, as vLLM reports it.
  ['arguments_unparsable', /^(?:expecting [^\n]{1,60}|unterminated string starting at|extra data|invalid [^\n]{1,40}): line \d+ column \d+/], // prettier-ignore
  ['cache_mark_on_empty', /cache_control cannot be set for empty text blocks/],
  ['cache_marks_too_many', /a maximum of \d+ blocks with cache_control may be provided/],
  ['content_empty', /all messages must have non-empty content/],
  ['content_empty', /text content blocks must (?:be non-empty|contain non-whitespace text)/],
  ['content_empty', /the message at position \d+ with role \w+ must not be empty/], // Moonshot
  ['content_empty', /contents\.parts must not be empty/], // Gemini
  ['content_empty', /the text field in the contentblock object at \S+ is blank/], // Bedrock
  ['trailing_space', /final assistant content cannot end with trailing whitespace/],
  ['roles_misordered', /unexpected role \w+ after role \w+/], // Mistral
  ['roles_misordered', /conversation roles must alternate/], // templates of vLLM and llama.cpp
  ['roles_misordered', /cannot have 2 or more assistant messages at the end of the list/], // llama.cpp
  ['thinking_unbound', /the block is bound to a different conversation/],
  ['thinking_altered', /blocks in the latest assistant message cannot be modified/],
  ['thinking_unverifiable', /invalid signature in thinking block/],
  ['thinking_unverifiable', /invalid data in redacted_thinking block/],
  ['thinking_unverifiable', /thinking\.signature: field required/],
  ['thinking_unverifiable', /each thinking block must contain thinking/],
  ['thinking_required', /expected thinking or redacted_thinking, but found/],
  ['thinking_missing', /(?:reasoning_content|reasoning_text) in the thinking mode must be passed back/], // DeepSeek
  ['thinking_missing', /reasoning_content is missing in assistant tool call message/], // Moonshot
  ['reasoning_undecryptable', /^invalid_encrypted_content$/],
  ['reasoning_undecryptable', /encrypted content \S+ could not be verified/],
  ['reasoning_undecryptable', /could not decrypt the provided encrypted_content/], // xAI
  ['reasoning_alone', /of type reasoning was provided without its required following item/],
  ['reasoning_detached', /was provided without its required reasoning item/],
  ['item_unknown', /item with id \S+ not found\. items are not persisted/],
  ['item_id_duplicate', /duplicate item found with id/],
  ['item_id_malformed', /expected an id that begins with/],
  ['item_id_malformed', /image generation items without id are not supported/],
  ['thought_signature_missing', /is missing a thought_signature/],
  ['thought_signature_missing', /require openrouter reasoning details to be preserved/],
  ['thought_signature_invalid', /corrupted thought signature/],
  ['image_too_large', /image exceeds \d+ mb maximum/],
  ['image_too_large', /image dimensions exceed max allowed size/],
]
