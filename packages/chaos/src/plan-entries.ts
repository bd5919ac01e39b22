/** Reads one fault or one toxic of a plan strictly: reports every wrong field, and fills in defaults. */
import { isObject } from '@breakfall/faults/internal'
import { type ChaosFault, FAULT_KIND_NAMES, isFaultKind, type Parameter, parametersOf } from './fault-kinds.ts'
import { isToxicType, type Toxic, TOXIC_TYPES, TOXICS } from './toxics.ts'

/** Reports a wrong field, with the names it may have if it is a choice. Returns undefined, to be returned in place of a value. */
export type ReportIssue = (field: string, expected: string, got: unknown, names?: readonly string[]) => undefined

export function readFault(value: unknown, field: string, reportIssue: ReportIssue): ChaosFault | undefined {
  const given = typeof value === 'string' ? { kind: value } : value
  if (!isObject(given)) return reportIssue(field, 'the name of a fault, or {kind, …}', value)
  const { kind, ...settings } = given
  if (typeof kind !== 'string' || !isFaultKind(kind)) {
    const at = typeof value === 'string' ? field : `${field}.kind`
    return reportIssue(at, `one of ${FAULT_KIND_NAMES.join(', ')}`, kind, FAULT_KIND_NAMES)
  }
  const parameters = parametersOf(kind)
  const out: Record<string, string | number | boolean> = {}
  for (const [key, got] of Object.entries(settings)) {
    const parameter = parameters[key]
    if (parameter === undefined) {
      reportIssue(
        `${field}.${key}`,
        `a setting of ${kind} (${Object.keys(parameters).join(', ') || 'it has none'})`,
        got,
      )
    } else if (fits(parameter, got)) {
      out[key] = got
    } else reportIssue(`${field}.${key}`, expectation(parameter), got)
  }
  for (const [key, parameter] of Object.entries(parameters)) {
    if (parameter.default !== 'seeded') out[key] ??= parameter.default
  }
  return { ...out, kind }
}

export function readToxic(value: unknown, field: string, reportIssue: ReportIssue): Toxic | undefined {
  if (!isObject(value)) return reportIssue(field, 'an object {type, …}', value)
  const { type, stream = 'downstream', toxicity = 1, attributes = {}, ...unknown } = value
  for (const key of Object.keys(unknown)) reportIssue(`${field}.${key}`, 'no such field', unknown[key])
  if (typeof type !== 'string' || !isToxicType(type)) {
    return reportIssue(`${field}.type`, `one of ${TOXIC_TYPES.join(', ')}`, type, TOXIC_TYPES)
  }
  if (stream !== 'downstream' && stream !== 'upstream') {
    return reportIssue(`${field}.stream`, 'downstream or upstream', stream)
  }
  if (typeof toxicity !== 'number' || !(toxicity >= 0 && toxicity <= 1)) {
    return reportIssue(`${field}.toxicity`, 'a number from 0 to 1', toxicity)
  }
  if (!isObject(attributes)) {
    return reportIssue(`${field}.attributes`, 'an object', attributes)
  }
  const out: Record<string, number> = { ...TOXICS[type].attributes }
  for (const [key, got] of Object.entries(attributes)) {
    if (out[key] === undefined) reportIssue(`${field}.attributes.${key}`, `one of ${Object.keys(out).join(', ')}`, got)
    else if (typeof got === 'number' && Number.isFinite(got) && got >= 0) out[key] = got
    else reportIssue(`${field}.attributes.${key}`, 'a number from 0', got)
  }
  return { type, stream, toxicity, attributes: out }
}

/** Seconds (`2s`), milliseconds (`1500ms`) or a date that far from now (`date:2s`); empty for none. */
export const WAIT_PATTERN = /^(?:|(?:date:)?\d+(?:\.\d+)?s|\d+ms)$/

// ---- details ----

function fits(parameter: Parameter, value: unknown): value is string | number | boolean {
  switch (parameter.type) {
    case 'integer':
      return isInteger(value) && value >= parameter.min && value <= parameter.max
    case 'choice':
      return typeof value === 'string' && parameter.values.includes(value)
    case 'flag':
      return typeof value === 'boolean'
    case 'wait':
      return typeof value === 'string' && WAIT_PATTERN.test(value)
  }
}

const isInteger = (value: unknown): value is number => Number.isInteger(value)

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
