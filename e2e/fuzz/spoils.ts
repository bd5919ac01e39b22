/** Wrongs to plant in what a client got: whoever judges streams has to notice each of them. */
import { apiOf } from './apis.ts'
import { type Case, type Frame, type Json, PLAIN } from './case.ts'
import type { Reply } from './client.ts'
import { objectIn, objectsIn, parsed, textIn } from './json.ts'
import { framesOf } from './oracle.ts'
import { encoded } from './wire.ts'

/** Undefined if it has nothing to spoil. */
export type Spoil = (frames: readonly Frame[]) => readonly Frame[] | undefined

export const SPOILS: Readonly<Record<string, Spoil>> = {
  'a word comes twice': (frames) =>
    at(
      frames,
      (frame) => wordsIn(frame) !== '',
      (frame) => [frame, frame],
    ),
  'a word is missing': (frames) =>
    at(
      frames,
      (frame) => wordsIn(frame) !== '' && !isEnd(frame),
      () => [],
    ),
  'two words change places': (frames) => {
    const first = frames.findIndex((frame, index) => isMovable(frame, frames[index + 1]))
    const [a, b] = [frames[first], frames[first + 1]]
    return a === undefined || b === undefined ? undefined : frames.toSpliced(first, 2, b, a)
  },
  'a call is missing': (frames) =>
    at(
      frames,
      (frame) => CALL.test(frame.data) && !isEnd(frame),
      () => [],
    ),
  'a call has another name': (frames) => changed(frames, /"name":"(?:ls|rm|read)"/, '"name":"other"'),
  'a call has other arguments': (frames) => changed(frames, CALL_ARGUMENTS, (found) => found.replace(/w\d|k0/, 'zz')),
  'a signature is missing': (frames) => {
    const last = frames.findLastIndex(({ data }) => SIGNATURE.test(data))
    const frame = frames[last]
    return frame === undefined
      ? undefined
      : frames.with(last, {
          ...frame,
          data: frame.data.replace(SIGNATURE, (found) => (found.startsWith(',') ? '' : '"signature":""')),
        })
  },
  'the usage is missing': (frames) =>
    changed(frames, /,"eval_count":\d+|,"usage(?:Metadata)?":\{[^{}]*\}(?!.*usage)/, '', 'last'),
  'the model stopped for another reason': (frames) =>
    changed(frames, /"(stop|length|tool_calls|end_turn|tool_use|STOP|completed)"/, '"other"', 'last'),
  'the end is missing': (frames) => {
    const end = frames.findIndex(isEnd)
    return end === -1 ? undefined : frames.slice(0, end)
  },
  'the final object has other words': (frames) =>
    changed(
      frames.filter(({ event }) => event !== undefined).length === frames.length ? frames : [],
      /(?<="type":"response\.completed".*"output_text","text":")[^"]+/,
      'other words',
    ),
}

/** The reply with other frames; undefined if this spoil finds nothing in it. */
export function spoiled(made: Case, reply: Reply, spoil: Spoil): Reply | undefined {
  const frames = spoil((framesOf(made, reply) ?? []).map(compact))
  if (frames === undefined) return undefined
  const { shape } = apiOf(made.api)
  return { ...reply, body: encoded(frames, shape === undefined ? PLAIN : { ...PLAIN, shape }).bytes }
}

// ---- details ----

const compact = (frame: Frame): Frame =>
  frame.data === '[DONE]' ? frame : { ...frame, data: JSON.stringify(JSON.parse(frame.data)) }

const CALL =
  /"tool_calls":\[\{"id"|"tool_calls":\[\{"index":\d+,"id"|"function_call":\{"name"|"tool_use","id"|"functionCall":|output_item\.added".*"(?:function_call|custom_tool_call)"/
const CALL_ARGUMENTS = /("(?:arguments|input|partial_json|args)":(?:"|\{)[^}]*?)(?:w\d|k0)/
const SIGNATURE = /,"thoughtSignature":"[^"]*"|"signature":"sig\d*"|,"data":"sig\d+"/

const isEnd = ({ event, data }: Frame): boolean =>
  event === 'message_delta' ||
  event === 'message_stop' ||
  event === 'response.completed' ||
  event === 'response.incomplete' ||
  data === '[DONE]' ||
  /"finish_reason":"|"finishReason":"|"done":true/.test(data)

function at(
  frames: readonly Frame[],
  is: (frame: Frame) => boolean,
  instead: (frame: Frame) => readonly Frame[],
): readonly Frame[] | undefined {
  const index = frames.findIndex(is)
  const frame = frames[index]
  return frame === undefined ? undefined : frames.toSpliced(index, 1, ...instead(frame))
}

function changed(
  frames: readonly Frame[],
  pattern: RegExp,
  by: string | ((found: string) => string),
  which: 'first' | 'last' = 'first',
): readonly Frame[] | undefined {
  const index =
    which === 'first'
      ? frames.findIndex(({ data }) => pattern.test(data))
      : frames.findLastIndex(({ data }) => pattern.test(data))
  const frame = frames[index]
  if (frame === undefined) return undefined
  const data = typeof by === 'string' ? frame.data.replace(pattern, by) : frame.data.replace(pattern, by)
  return data === frame.data ? undefined : frames.with(index, { ...frame, data })
}

/** The text that a frame adds, in any API. */
function wordsIn({ data }: Frame): string {
  if (data === '[DONE]') return ''
  const json = parsed(data)
  const ofChoices = objectsIn(json, 'choices')
    .map((choice) => objectIn(choice, 'delta'))
    .map((delta) => textIn(delta, 'content'))
  const ofCandidates = objectsIn(json, 'candidates').flatMap((one) =>
    objectsIn(objectIn(one, 'content'), 'parts').map((part) => textIn(part, 'text')),
  )
  const type = textIn(json, 'type')
  const ofEvents =
    type === 'content_block_delta'
      ? [textIn(objectIn(json, 'delta'), 'text')]
      : type === 'response.output_text.delta'
        ? [textIn(json, 'delta')]
        : []
  return [...ofChoices, ...ofCandidates, ...ofEvents, textIn(objectIn(json, 'message'), 'content')].join('')
}

/** Neighbours that say different words and nothing else. */
function isMovable(frame: Frame, next: Frame | undefined): boolean {
  if (next === undefined || isEnd(frame) || isEnd(next)) return false
  const [a, b] = [wordsIn(frame), wordsIn(next)]
  return a !== '' && b !== '' && a + b !== b + a && laneOf(frame) === laneOf(next)
}

function laneOf({ data }: Frame): string {
  const json: Json = parsed(data)
  return [...objectsIn(json, 'choices'), ...objectsIn(json, 'candidates')].map(({ index }) => String(index)).join()
}
