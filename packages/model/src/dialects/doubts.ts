/**
 * Answers that are complete and yet probably not what the model meant: empty ones, and calls that came as text. Each is asked for again
 * once if that is safe; what comes then is the answer. Pure.
 *
 * I1  An answer that may be meant to be short is not empty by mistake if it ended at a stop sequence, continues the client's text, is
 *     one of several, or holds anything that is neither text nor a thought.
 * I2  A text is a leaked call only if the request offers tools, asks for no JSON, and does not itself have such texts in it.
 */
import { isObject, type JsonObject, objectOr } from '../lib/json.ts'
import { leakedCall } from './leaked-call.ts'
import { type ReadAnswer, VISIBLE_CHARS_MAX } from './read-answer.ts'

export type Doubt = {
  readonly reason: 'empty_answer' | 'thoughts_only' | 'leaked_call'
  /** Of the tool that the model wrote a call of. */
  readonly name?: string | undefined
}

/** The header that an answer in doubt has. */
export const DOUBT = 'x-breakfall-doubt'

/** For a header or a comment. */
export const doubtText = ({ reason, name }: Doubt): string =>
  name === undefined ? reason : `${reason} ${name.replaceAll(/[^\w.-]+/g, '_')}`

/** `asked`: the body of the request. Undefined if it is too large to look at, and then nothing is in doubt. */
export function doubtOf(
  answer: ReadAnswer,
  finish: string,
  offered: ReadonlyMap<string, unknown>,
  asked: () => JsonObject | undefined,
): Doubt | undefined {
  if (finish !== 'stop' || answer.isMeant || answer.choices > 1 || answer.tools.length > 0) return undefined
  if (!answer.isVisible) {
    const body = asked()
    if (body === undefined || mayBeEmpty(body)) return undefined // I1
    return { reason: answer.hasThoughts ? 'thoughts_only' : 'empty_answer' }
  }
  if (offered.size === 0 || answer.visible.length > VISIBLE_CHARS_MAX) return undefined
  const leaked = leakedCall(answer.visible, (name) => offered.has(name))
  const body = leaked === undefined ? undefined : asked()
  if (leaked === undefined || body === undefined || mayQuoteCalls(body, leaked.marker)) return undefined // I2
  return { reason: 'leaked_call', name: leaked.name }
}

// ---- details ----

/** I1 */
function mayBeEmpty(body: JsonObject): boolean {
  const config = objectOr(body['generationConfig'] ?? body['generation_config'])
  const stops = [
    body['stop'],
    body['stop_sequences'],
    config['stopSequences'] ?? config['stop_sequences'],
    objectOr(body['options'])['stop'],
  ]
  if (stops.some((stop) => (Array.isArray(stop) ? stop.length > 0 : stop != null && stop !== ''))) return true
  if (Number(body['n'] ?? config['candidateCount'] ?? 1) > 1) return true
  const turns = [body['messages'], body['contents'], body['input']].find((list) => Array.isArray(list))
  if (turns === undefined)
    return body['prompt'] === '' || body['prompt'] === undefined ? body['input'] === undefined : false
  const { role, type } = objectOr(turns.at(-1))
  return (
    turns.length === 0 || ((role === 'assistant' || role === 'model') && (type === undefined || type === 'message'))
  )
}

/** I2 */
function mayQuoteCalls(body: JsonObject, marker: RegExp): boolean {
  const { tools: _tools, functions: _functions, ...rest } = body
  const choice = body['tool_choice']
  const mode = objectOr(objectOr(body['toolConfig'] ?? body['tool_config'])['functionCallingConfig'])['mode']
  if (choice === 'none' || objectOr(choice)['type'] === 'none' || mode === 'NONE') return true
  return asksForJson(body) || quotes(rest, marker, 0)
}

function asksForJson(body: JsonObject): boolean {
  const config = objectOr(body['generationConfig'] ?? body['generation_config'])
  const formats = [
    body['response_format'],
    objectOr(body['text'])['format'],
    objectOr(body['output_config'])['format'],
    body['output_format'],
    body['format'],
  ]
  if (formats.some((format) => format != null && objectOr(format)['type'] !== 'text')) return true
  return ['responseSchema', 'responseJsonSchema', 'responseMimeType'].some(
    (key) => config[key] != null && config[key] !== 'text/plain',
  )
}

const DEPTH_MAX = 12

/** Whether a text anywhere in it has the marker. The arguments of calls that were made properly do not count. */
function quotes(value: unknown, marker: RegExp, depth: number): boolean {
  if (typeof value === 'string') return marker.test(value)
  if (depth > DEPTH_MAX) return true
  if (Array.isArray(value)) return value.some((each) => quotes(each, marker, depth + 1))
  return (
    isObject(value) && Object.keys(value).some((key) => key !== 'arguments' && quotes(value[key], marker, depth + 1))
  )
}
