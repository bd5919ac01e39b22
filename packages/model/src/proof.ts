/**
 * Judges whether what was read is a whole answer. Pure.
 *
 * I1  Complete only by the protocol's own word: a finish reason, an end marker where the profile takes one. That the
 *     connection ended properly proves nothing.
 * I2  A tool call counts as whole when its JSON is an object and every required parameter is in it.
 */
import { Fault, type FaultCategory } from '@breakfall/faults'
import type { ApiName } from './answer.ts'
import type { AnswerState, ToolPart } from './parts.ts'
import type { Profile } from './profiles.ts'

/** Required parameters by tool name. A tool that is not in it is not ours to judge beyond its JSON. */
export type RequiredParameters = ReadonlyMap<string, readonly string[]>

export type ReleasedCall = { readonly part: ToolPart; readonly arguments: Record<string, unknown> }

export type Verdict =
  | {
      readonly complete: true
      readonly proven: boolean
      readonly finish: string
      readonly calls: readonly ReleasedCall[]
    }
  | { readonly complete: false; readonly fault: Fault }

/** `broken` is what ended the transport, where something did. */
export function judge(
  state: AnswerState,
  api: ApiName,
  profile: Profile,
  required: RequiredParameters,
  broken?: Fault,
): Verdict {
  const finish = state.finish
  const isFinished = finish !== null && (api === 'openai-chat' || state.ended)
  if (isFinished) return finished(state, finish, required)
  if (broken !== undefined) return { complete: false, fault: broken }
  if (api === 'openai-chat' && state.ended && profile.doneMarker === 'accept') return unnamedEnd(state, required)
  if (profile.lenient && state.tools.length === 0 && state.parts.length > 0)
    return { complete: true, proven: false, finish: 'stop', calls: [] }
  return { complete: false, fault: incomplete(state) }
}

/** The arguments of a whole call, or undefined where they are cut, no object, or lack what the tool requires. */
export function parseArguments(part: ToolPart, required: RequiredParameters): Record<string, unknown> | undefined {
  const value = objectOf(part)
  return value === undefined || lacking(part, value, required).length > 0 ? undefined : value // I2
}

// ---- details, in the order they are used above ----

/** What the call gives, where it is an object; without any text that is none. */
function objectOf(part: ToolPart): Record<string, unknown> | undefined {
  if (part.tool === '') return undefined
  if (part.arguments.trim() === '') return {}
  try {
    const value: unknown = JSON.parse(part.arguments)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined // cut inside the JSON: the verdict says so
  }
}

const lacking = (part: ToolPart, value: object, required: RequiredParameters): readonly string[] =>
  (required.get(part.tool) ?? []).filter((name) => !Object.hasOwn(value, name))

/** Finish reasons that are failures. */
const FAILED_FINISH: Readonly<Record<string, FaultCategory>> = {
  content_filter: 'model_content_filtered',
  error: 'model_server_error', // OpenRouter, when the provider behind it broke
  insufficient_system_resource: 'model_overloaded', // DeepSeek
  malformed_function_call: 'tool_call_truncated', // Gemini behind its OpenAI-compatible route
}

function finished(state: AnswerState, finish: string, required: RequiredParameters): Verdict {
  const failed = Object.hasOwn(FAILED_FINISH, finish) ? FAILED_FINISH[finish] : undefined
  if (failed !== undefined)
    return { complete: false, fault: new Fault(failed, { phase: 'stream', errorRaw: `finish reason ${finish}` }) }
  const calls = releasable(state, required)
  if (!Array.isArray(calls)) return { complete: false, fault: truncated(calls as ToolPart, required, finish) }
  if (finish === 'tool_calls' && calls.length === 0)
    return { complete: false, fault: truncated(undefined, required, `${finish}, but no call came`) }
  return { complete: true, proven: true, finish, calls }
}

/** `[DONE]` without a finish reason. Calls that are whole confirm it; for text there is no second witness; with nothing it is no answer. */
function unnamedEnd(state: AnswerState, required: RequiredParameters): Verdict {
  if (state.parts.length === 0 && state.tools.length === 0) return { complete: false, fault: incomplete(state) }
  const calls = releasable(state, required)
  if (!Array.isArray(calls)) return { complete: false, fault: truncated(calls as ToolPart, required, 'none') }
  const hasCalls = calls.length > 0
  return { complete: true, proven: hasCalls, finish: hasCalls ? 'tool_calls' : 'stop', calls }
}

/** Every call, parsed; or the first that is not whole. */
function releasable(state: AnswerState, required: RequiredParameters): readonly ReleasedCall[] | ToolPart {
  const calls: ReleasedCall[] = []
  for (const part of state.tools) {
    const parsed = parseArguments(part, required)
    if (parsed === undefined) return part
    calls.push({ part, arguments: parsed })
  }
  return calls
}

function truncated(part: ToolPart | undefined, required: RequiredParameters, finish: string): Fault {
  const name = part?.tool === '' ? undefined : part?.tool
  const value = part === undefined || part.arguments.trim() === '' ? undefined : objectOf(part)
  const detail =
    part !== undefined && value !== undefined ? `it lacks ${lacking(part, value, required).join(', ')}` : undefined
  const bytes = part === undefined ? '' : ` after ${part.arguments.length} characters of arguments`
  return new Fault('tool_call_truncated', {
    phase: 'stream',
    facts: { name, detail },
    errorRaw: `the arguments of ${name ?? 'a tool call'} are not whole${bytes}${detail === undefined ? '' : `: ${detail}`} (finish reason ${finish})`,
  })
}

function incomplete(state: AnswerState): Fault {
  const seen = state.ended ? 'the end marker but no finish reason' : 'no finish reason and no end marker'
  return new Fault('model_stream_incomplete', {
    phase: 'stream',
    errorRaw: `the stream ended properly after ${state.parts.length} part${state.parts.length === 1 ? '' : 's'} with ${seen}`,
  })
}
