/**
 * Judges whether what was read is a complete answer. Pure.
 *
 * I1  Only the protocol's own sign proves it: a finish reason, or an end marker if the profile accepts one. A connection that
 *     ended properly proves nothing.
 * I2  A tool call is complete when its JSON is an object. One without JSON is complete when the protocol says so: a prefix of free
 *     text looks complete, too. No arguments at all mean an empty object, but not where the token limit may have cut them off: in
 *     the last call of an answer that it ended.
 * I3  An answer that holds nothing is in doubt, and so is a call that came as text, or that lacks a required parameter. Each is asked
 *     for again once, and then it is the answer: the model learns from its agent what is missing. Not at the token limit, which may be
 *     what it lacks.
 */
import { Fault, type FaultCategory, type FaultReport } from '@breakfall/faults'
import { OUTPUT_LIMIT } from '@breakfall/faults/internal'
import type { Dialect } from './dialect.ts'
import { type Doubt, doubtOf } from './doubts.ts'
import type { ReadAnswer, ToolPart } from './read-answer.ts'
import { isObject, type JsonObject } from '../lib/json.ts'
import type { Profile } from '../contract/profiles.ts'

/** Required parameters by tool name. Of a tool that is not in it, only the JSON is checked. */
export type RequiredParameters = ReadonlyMap<string, readonly string[]>

export type Verdict =
  | {
      readonly complete: true
      readonly proven: boolean
      readonly finish: string
      /** Their arguments: `argumentsOf`. Parsed, a hundred thousand calls would take as much again as their text. */
      readonly calls: readonly ToolPart[]
      /** Why it is probably not what the model meant, though it was asked again or cannot be. */
      readonly doubt?: Doubt | undefined
    }
  | { readonly complete: false; readonly fault: Fault }

export type JudgeOptions = {
  /** What ended the transport, if something did. */
  readonly broken?: Fault | undefined
  /** Of the attempt before this one. */
  readonly lastFault?: FaultReport | null | undefined
  /** What went out cannot be taken back, or no attempt is left: an answer in doubt is the answer. */
  readonly isCommitted?: boolean | undefined
  /** The limit that the request set. */
  readonly maxTokens?: number | undefined
  /** The body of the request, for what is in doubt. */
  readonly asked?: (() => JsonObject | undefined) | undefined
  /** Whether an empty answer is asked for again. */
  readonly empty?: 'ask-again' | 'accept' | undefined
}

export function judge(
  answer: ReadAnswer,
  { proof }: Pick<Dialect, 'proof'>,
  profile: Profile,
  required: RequiredParameters,
  { broken, lastFault, isCommitted = false, maxTokens, asked = () => undefined, empty }: JudgeOptions = {},
): Verdict {
  const finish = answer.finish !== null && isAtLimit(answer, profile, maxTokens) ? LENGTH : answer.finish
  const endsByReason = proof !== 'end_event'
  if (finish !== null && (endsByReason || answer.ended)) {
    const doubt = doubtOf(answer, finish, required, asked)
    const isAccepted = isCommitted || (empty === 'accept' && doubt?.reason !== 'leaked_call')
    if (doubt !== undefined && !isAccepted && !DOUBTED.has(lastFault?.reason))
      return { complete: false, fault: doubtful(doubt) } // I3
    const mayLack = finish !== LENGTH && (isCommitted || lastFault?.reason === LACKS) // I3
    const verdict = finished(answer, finish, mayLack ? NOTHING_REQUIRED : required)
    return verdict.complete && doubt !== undefined ? { ...verdict, doubt } : verdict
  }
  if (broken !== undefined) return { complete: false, fault: broken }
  if (endsByReason && answer.ended && profile.doneMarker === 'accept') return unnamedEnd(answer, required)
  if (profile.lenient && answer.tools.length === 0 && answer.parts.length > 0)
    return { complete: true, proven: false, finish: 'stop', calls: [] }
  return { complete: false, fault: incomplete(answer) }
}

/** A tool of the provider may have run, and another request could run it again: a person decides. */
export function afterServerTool(fault: Fault, { serverTool }: ReadAnswer): Fault {
  if (serverTool === undefined || fault.class === 'cancelled') return fault
  return fault.with({
    next: 'never',
    sideEffects: 'unknown',
    message: {
      advice: `The provider may have run ${serverTool} already: check what it did before you send the request again.`,
    },
  })
}

// ---- details, in the order they are used above ----

const DOUBTED: ReadonlySet<unknown> = new Set<Doubt['reason']>(['empty_answer', 'thoughts_only', 'leaked_call'])
const LACKS = 'missing_parameter'
const LENGTH = 'length'

const NOTHING_REQUIRED: RequiredParameters = new Map()

/** The server does not say that it stopped at the token limit, but it counted as many tokens. */
const isAtLimit = ({ usage }: ReadAnswer, profile: Profile, maxTokens: number | undefined): boolean =>
  !profile.lengthIsVisible && maxTokens !== undefined && (usage.output ?? 0) >= maxTokens

const doubtful = ({ reason, name }: Doubt): Fault =>
  new Fault('model_stream_incomplete', {
    phase: 'stream',
    reason,
    message: { happened: name === undefined ? EMPTY[reason] : `The model wrote its call of ${name} as text.` },
    errorRaw: name === undefined ? NO_OUTPUT : `the answer is a call of ${name}, written as text`,
  })

const NO_OUTPUT = 'the answer says that it is complete, but it has no output'

const EMPTY: Readonly<Record<Doubt['reason'], string>> = {
  empty_answer: 'The model’s answer is empty.',
  thoughts_only: 'The model’s answer is nothing but thoughts.',
  leaked_call: 'The model wrote its call as text.',
}

/** The arguments of a call that is complete. */
export const argumentsOf = (part: ToolPart): JsonObject =>
  part.form === 'json' ? (objectOf(part) ?? {}) : { input: part.arguments }

/** The arguments as an object; a call without any text has none, which is an empty object. */
function objectOf(part: ToolPart): JsonObject | undefined {
  if (part.tool === '') return undefined
  if (part.arguments.trim() === '') return {}
  try {
    const value: unknown = JSON.parse(part.arguments)
    return isObject(value) ? value : undefined
  } catch {
    return undefined // the JSON is cut, and the verdict says so
  }
}

const isWritten = ({ form, tool, isCut, arguments: text }: ToolPart): boolean =>
  form === 'json' && tool !== '' && !isCut && text.trim() !== ''

/** Whether all strings and brackets of a JSON text are closed: then it was not cut short, whatever else is wrong with it. */
function isClosed(text: string): boolean {
  let depth = 0
  let inString = false
  for (let i = 0; i < text.length; i++) {
    const char = text[i] ?? ''
    if (inString && char === '\\') i++
    else if (char === '"') inString = !inString
    else if (!inString && '{['.includes(char)) depth++
    else if (!inString && '}]'.includes(char)) depth--
  }
  return depth <= 0 && !inString
}

const lacking = (part: ToolPart, value: JsonObject, required: RequiredParameters): readonly string[] =>
  (required.get(part.tool) ?? []).filter((name) => !Object.hasOwn(value, name))

/** Finish reasons that are failures. */
const FAILED_FINISH: Readonly<Record<string, FaultCategory>> = {
  content_filter: 'model_content_filtered',
  error: 'model_server_error', // OpenRouter, when the provider behind it broke
  insufficient_system_resource: 'model_overloaded', // DeepSeek
  malformed_function_call: 'tool_call_truncated', // Gemini behind its OpenAI-compatible route
}

function finished(answer: ReadAnswer, finish: string, required: RequiredParameters): Verdict {
  const failed = Object.hasOwn(FAILED_FINISH, finish) ? FAILED_FINISH[finish] : undefined
  if (failed !== undefined)
    return { complete: false, fault: new Fault(failed, { phase: 'stream', errorRaw: `finish reason ${finish}` }) }
  const { calls, cut } = releasable(answer, required, finish === LENGTH ? answer.tools.at(-1) : undefined)
  if (cut !== undefined) return { complete: false, fault: truncated(answer, cut, required, finish) }
  if (finish === 'tool_calls' && calls.length === 0)
    return { complete: false, fault: truncated(answer, undefined, required, `${finish}, but no call came`) }
  return { complete: true, proven: true, finish, calls }
}

/** `[DONE]` without a finish reason. Complete calls confirm it, text does not, and with neither there is no answer. */
function unnamedEnd(answer: ReadAnswer, required: RequiredParameters): Verdict {
  if (answer.parts.length === 0) return { complete: false, fault: incomplete(answer) }
  const { calls, cut } = releasable(answer, required)
  if (cut !== undefined) return { complete: false, fault: truncated(answer, cut, required, 'none') }
  const hasCalls = calls.length > 0
  return { complete: true, proven: hasCalls, finish: hasCalls ? 'tool_calls' : 'stop', calls }
}

type Releasable = { readonly calls: readonly ToolPart[]; readonly cut: ToolPart | undefined }

/** The calls up to the first that is not complete. `atLimit` is the call that the token limit may have cut. */
function releasable(answer: ReadAnswer, required: RequiredParameters, atLimit?: ToolPart): Releasable {
  const calls: ToolPart[] = []
  for (const part of answer.tools) {
    const isUnwritten = part === atLimit && part.form === 'json' && part.arguments.trim() === ''
    const parsed = isUnwritten ? undefined : parsedArguments(part, required) // I2
    if (parsed === undefined) return { calls, cut: part }
    if (part.form !== 'item') calls.push(part)
  }
  return { calls, cut: undefined }
}

/** The arguments of a complete call, or undefined if they are cut, not an object, or lack what the tool requires. */
function parsedArguments(part: ToolPart, required: RequiredParameters): JsonObject | undefined {
  if (part.form !== 'json') return part.isDone ? { input: part.arguments } : undefined // I2
  const value = part.isCut ? undefined : objectOf(part)
  return value === undefined || lacking(part, value, required).length > 0 ? undefined : value // I2
}

function truncated(
  { usage: { output } }: ReadAnswer,
  part: ToolPart | undefined,
  required: RequiredParameters,
  finish: string,
): Fault {
  const name = part?.tool === '' ? undefined : part?.tool
  const value = part === undefined || part.arguments.trim() === '' ? undefined : objectOf(part)
  const lacks = part === undefined || value === undefined ? [] : lacking(part, value, required)
  const isMalformed = part !== undefined && value === undefined && isWritten(part) && isClosed(part.arguments)
  const detail =
    lacks.length > 0
      ? `it lacks ${lacks.join(', ')}`
      : isMalformed
        ? 'its arguments are not valid JSON for an object'
        : undefined
  const isAtEnd = finish === LENGTH && detail === undefined
  const bytes = part === undefined ? '' : ` after ${part.arguments.length} characters of arguments`
  return new Fault('tool_call_truncated', {
    phase: 'stream',
    facts: { name, detail, limit: isAtEnd && output !== undefined ? `${output} tokens` : undefined },
    ...(isAtEnd ? { reason: OUTPUT_LIMIT } : lacks.length > 0 && finish !== LENGTH ? { reason: LACKS } : {}),
    errorRaw: `the arguments of ${name ?? 'a tool call'} are not complete${bytes}${detail === undefined ? '' : `: ${detail}`} (finish reason ${finish})`,
  })
}

function incomplete({ ended, parts }: ReadAnswer): Fault {
  const seen = ended ? 'the end marker but no finish reason' : 'no finish reason and no end marker'
  return new Fault('model_stream_incomplete', {
    phase: 'stream',
    errorRaw: `the stream ended properly after ${parts.length} part${parts.length === 1 ? '' : 's'} with ${seen}`,
  })
}
