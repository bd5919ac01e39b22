/**
 * What a server asks a person before it can answer a call: elicitation of 2025, as a request while the call is open, and
 * `input_required` of 2026, as its answer, after which the call is sent once more with what the person said.
 */
import { isObject } from '@breakfall/faults/internal'

export type McpQuestion = {
  readonly message: string
  /** The fields of the answer, as a JSON schema. */
  readonly schema: Readonly<Record<string, unknown>>
  /** What continues the call once this is answered, also in another process. Undefined: only the open call takes the answer. */
  readonly continues: Continues | undefined
  /** Fires when the server takes the question back. */
  readonly signal: AbortSignal
}

export type FieldValue = string | number | boolean | string[]

export type McpAnswer =
  | { readonly action: 'accept'; readonly content: Readonly<Record<string, FieldValue>> }
  | { readonly action: 'decline' | 'cancel' }

/** A call that continues after a question: what the server wants to see again, and the answers so far. */
export type Continues = {
  readonly state?: string | undefined
  readonly responses: Readonly<Record<string, McpAnswer>>
  /** The question that is open. */
  readonly open?: string | undefined
}

/** An answer that says what is missing before there can be a result. */
export type InputRequired = {
  readonly requests: Readonly<Record<string, unknown>>
  readonly state: string | undefined
}

/** Undefined if the result is none of that kind. */
export function inputRequiredIn(result: Readonly<Record<string, unknown>>): InputRequired | undefined {
  if (result['resultType'] !== 'input_required') return undefined
  const { inputRequests, requestState } = result
  return {
    requests: isObject(inputRequests) ? inputRequests : {},
    state: typeof requestState === 'string' ? requestState : undefined,
  }
}

/** The first thing that it asks; empty if it only wants the call once more. */
export function firstMessage({ requests }: InputRequired): string {
  const [first]: readonly unknown[] = Object.values(requests)
  const params = isObject(first) ? first['params'] : undefined
  return isObject(params) && typeof params['message'] === 'string' ? params['message'] : ''
}

/** The fields of an elicitation by form. Undefined for anything else, such as a page to visit. */
export function formIn(request: unknown): Pick<McpQuestion, 'message' | 'schema'> | undefined {
  if (!isObject(request) || request['method'] !== 'elicitation/create' || !isObject(request['params'])) return undefined
  const { mode = 'form', message, requestedSchema } = request['params']
  if (mode !== 'form' || typeof message !== 'string' || !isObject(requestedSchema)) return undefined
  return { message, schema: requestedSchema }
}

/** The same answer; fields that it leaves out have their defaults. */
export function withDefaults(answer: McpAnswer, schema: McpQuestion['schema']): McpAnswer {
  if (answer.action !== 'accept') return answer
  const properties = isObject(schema['properties']) ? schema['properties'] : {}
  const defaults = Object.entries(properties).flatMap(([name, property]) =>
    isObject(property) && isFieldValue(property['default']) ? [[name, property['default']] as const] : [],
  )
  return {
    action: 'accept',
    content: {
      ...answer.content,
      ...Object.fromEntries(defaults.filter(([name]) => !Object.hasOwn(answer.content, name))),
    },
  }
}

// ---- details ----

const isFieldValue = (value: unknown): value is FieldValue =>
  ['string', 'number', 'boolean'].includes(typeof value) ||
  (Array.isArray(value) && value.every((item) => typeof item === 'string'))
