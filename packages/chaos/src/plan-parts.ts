/** The parts of a plan, read strictly: one fault, one toxic. What is wrong is complained of by field; what is left out has its default. */
import { type ChaosFault, FAULT_KIND_NAMES, isFaultKind, type Parameter, parametersOf } from './fault-kinds.ts'
import { isToxicType, type Toxic, TOXIC_TYPES, TOXICS } from './toxics.ts'

/** Records that a field is wrong, with the names that it may have where it has one. Returns undefined, so that it can stand where a value would. */
export type Complain = (field: string, expected: string, got: unknown, names?: readonly string[]) => undefined

export function readFault(value: unknown, field: string, complain: Complain): ChaosFault | undefined {
  const given = typeof value === 'string' ? { kind: value } : value
  if (typeof given !== 'object' || given === null) return complain(field, 'the name of a fault, or {kind, …}', value)
  const { kind, ...settings } = given as Record<string, unknown>
  if (typeof kind !== 'string' || !isFaultKind(kind)) {
    const at = typeof value === 'string' ? field : `${field}.kind`
    return complain(at, `one of ${FAULT_KIND_NAMES.join(', ')}`, kind, FAULT_KIND_NAMES)
  }
  const parameters = parametersOf(kind)
  const out: Record<string, string | number | boolean> = { kind }
  for (const [key, got] of Object.entries(settings)) {
    const parameter = parameters[key]
    if (parameter === undefined) {
      complain(`${field}.${key}`, `a setting of ${kind} (${Object.keys(parameters).join(', ') || 'it has none'})`, got)
    } else if (fits(parameter, got)) {
      out[key] = got
    } else complain(`${field}.${key}`, expectation(parameter), got)
  }
  for (const [key, parameter] of Object.entries(parameters)) {
    if (parameter.default !== 'dice') out[key] ??= parameter.default
  }
  return out as ChaosFault
}

export function readToxic(value: unknown, field: string, complain: Complain): Toxic | undefined {
  if (typeof value !== 'object' || value === null) return complain(field, 'an object {type, …}', value)
  const { type, stream = 'downstream', toxicity = 1, attributes = {}, ...unknown } = value as Record<string, unknown>
  for (const key of Object.keys(unknown)) complain(`${field}.${key}`, 'no such field', unknown[key])
  if (typeof type !== 'string' || !isToxicType(type)) {
    return complain(`${field}.type`, `one of ${TOXIC_TYPES.join(', ')}`, type, TOXIC_TYPES)
  }
  if (stream !== 'downstream' && stream !== 'upstream') {
    return complain(`${field}.stream`, 'downstream or upstream', stream)
  }
  if (typeof toxicity !== 'number' || !(toxicity >= 0 && toxicity <= 1)) {
    return complain(`${field}.toxicity`, 'a number from 0 to 1', toxicity)
  }
  if (typeof attributes !== 'object' || attributes === null) {
    return complain(`${field}.attributes`, 'an object', attributes)
  }
  const out: Record<string, number> = { ...TOXICS[type].attributes }
  for (const [key, got] of Object.entries(attributes)) {
    if (out[key] === undefined) complain(`${field}.attributes.${key}`, `one of ${Object.keys(out).join(', ')}`, got)
    else if (typeof got === 'number' && Number.isFinite(got) && got >= 0) out[key] = got
    else complain(`${field}.attributes.${key}`, 'a number from 0', got)
  }
  return { type, stream, toxicity, attributes: out }
}

/** Seconds (`2s`), milliseconds (`1500ms`) or a date so far from now (`date:2s`); empty for none. */
export const WAIT_PATTERN = /^(?:|(?:date:)?\d+(?:\.\d+)?s|\d+ms)$/

// ---- details ----

function fits(parameter: Parameter, value: unknown): value is string | number | boolean {
  switch (parameter.type) {
    case 'integer':
      return Number.isInteger(value) && (value as number) >= parameter.min && (value as number) <= parameter.max
    case 'choice':
      return parameter.values.includes(value as string)
    case 'flag':
      return typeof value === 'boolean'
    case 'wait':
      return typeof value === 'string' && WAIT_PATTERN.test(value)
  }
}

function expectation(parameter: Parameter): string {
  switch (parameter.type) {
    case 'integer':
      return `a whole number from ${parameter.min} to ${parameter.max}`
    case 'choice':
      return `one of ${parameter.values.join(', ')}`
    case 'flag':
      return 'true or false'
    case 'wait':
      return 'a wait such as 2s, 1500ms or date:2s'
  }
}
