/**
 * Notices an agent that repeats itself: the last steps of a request's own history are the same single call with the same result. Keeps
 * nothing between requests. Pure.
 *
 * I1  Only the end of the history is parsed, and first so little that a request without a repetition costs next to nothing.
 */
import { elementsOf, type RequestBody } from '@breakfall/model/internal'

export type AgentLoop = { readonly tool: string; readonly times: number }

/** From this many on it is one: agents try a failing call again a few times. */
export const LOOP_TIMES_MIN = 5

const STEPS_LOOKED_AT = 24

/** Undefined if there is none. */
export function agentLoopIn(body: RequestBody): AgentLoop | undefined {
  if (repeatedIn(body, 2) < 2) return undefined // I1
  const times = repeatedIn(body, STEPS_LOOKED_AT)
  if (times < LOOP_TIMES_MIN) return undefined
  return { tool: stepsIn(body, 1).at(-1)?.tool ?? '', times }
}

// ---- details ----

type Json = Readonly<Record<string, unknown>>
type Atom = { readonly kind: 'call' | 'result' | 'other'; readonly tool: string; readonly said: string }
type Step = { readonly tool: string; readonly said: string }

/** How often the last step came in a row, as far as is looked. */
function repeatedIn(body: RequestBody, steps: number): number {
  const found = stepsIn(body, steps)
  const last = found.at(-1)
  if (last === undefined) return 0
  const other = found.findLastIndex(({ said }) => said !== last.said)
  return found.length - 1 - other
}

/** The last steps, each one call and its result. What is neither ends the search. */
function stepsIn(body: RequestBody, count: number): readonly Step[] {
  const atoms = elementsOf(body, count * 3 + 1).flatMap(atomsOf)
  const steps: Step[] = []
  for (let at = atoms.length - 1; at > 0 && steps.length < count; at -= 2) {
    const [call, result] = [atoms[at - 1], atoms[at]]
    if (call?.kind !== 'call' || result?.kind !== 'result' || atoms[at - 2]?.kind === 'call') break
    steps.unshift({ tool: call.tool, said: `${call.said} ${result.said}` })
  }
  return steps
}

/** What an element of any API's history calls and is answered. Text and thoughts of the model count for nothing. */
function atomsOf(element: Json): readonly Atom[] {
  const { role, type, content, parts, tool_calls: calls } = element
  if (type === 'function_call') return [callOf(element['name'], element['arguments'])]
  if (type === 'function_call_output') return [resultOf(element['output'])]
  if (type === 'reasoning') return []
  if (role === 'tool') return [resultOf(content)]
  if (Array.isArray(calls)) return objects(calls).map((call) => calledIn(object(call['function'])))
  const pieces = objects(Array.isArray(parts) ? parts : content)
  const atoms = pieces.flatMap((piece): readonly Atom[] => {
    if (piece['type'] === 'tool_use') return [callOf(piece['name'], piece['input'])]
    if (piece['type'] === 'tool_result') return [resultOf(piece['content'])]
    if (piece['functionCall'] !== undefined) return [calledIn(object(piece['functionCall']))]
    if (piece['functionResponse'] !== undefined) return [resultOf(object(piece['functionResponse'])['response'])]
    return role === 'assistant' || role === 'model' ? [] : [OTHER]
  })
  if (atoms.length > 0) return atoms
  return role === 'assistant' || role === 'model' ? [] : [OTHER]
}

const OTHER: Atom = { kind: 'other', tool: '', said: '' }

const calledIn = ({ name, arguments: given, args }: Json): Atom => callOf(name, given ?? args)

const callOf = (name: unknown, given: unknown): Atom => {
  const tool = typeof name === 'string' ? name : ''
  return { kind: 'call', tool, said: JSON.stringify([tool, given]) }
}

const resultOf = (said: unknown): Atom => ({ kind: 'result', tool: '', said: JSON.stringify(said ?? null) })

const object = (value: unknown): Json => (typeof value === 'object' && value !== null ? { ...value } : {})

const objects = (value: unknown): readonly Json[] =>
  Array.isArray(value) ? value.filter((one): one is Json => typeof one === 'object' && one !== null) : []
