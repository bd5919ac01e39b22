/**
 * A plan in one line, for a command line: `seed=7,rate=0.2,faults=reset+stall:2000+status:429:retryAfter=2s`.
 *
 * Commas separate fields, plus signs list items, colons settings. A setting without a name is the fault's first one.
 * `at=3.1:reset` hits the first attempt at the third request, `toxics=latency:100:jitter=20` acts below HTTP, and `none`
 * injects nothing.
 */
import { messageOf } from '@breakfall/faults/internal'
import { FAULT_KINDS, isFaultKind, type Parameter, parametersOf } from './fault-kinds.ts'
import { badPlan, type Plan, readPlan } from './plan.ts'
import { isToxicType, TOXICS } from './toxics.ts'

/** Reads a plan from one line, or from JSON if the text starts with a brace. Throws an `invalid_request` fault. */
export function parsePlan(text: string): Plan {
  const trimmed = text.trim()
  if (trimmed.startsWith('{')) return readPlan(parseJson(trimmed))
  const input: Record<string, unknown> = {}
  for (const field of trimmed === '' || trimmed === 'none' ? [] : trimmed.split(',')) {
    const equals = field.indexOf('=')
    const key = (equals < 0 ? field : field.slice(0, equals)).trim()
    if (equals < 0) throw badPlan([{ field: key || 'a field', expected: 'name=value', got: JSON.stringify(field) }])
    if (Object.hasOwn(input, key)) throw badPlan([{ field: key, expected: 'given once', got: 'twice' }])
    input[key] = fieldValue(key, field.slice(equals + 1).trim())
  }
  return readPlan(input)
}

// ---- details ----

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw badPlan([{ field: 'the plan', expected: 'JSON', got: messageOf(error) }], error)
  }
}

function fieldValue(key: string, value: string): unknown {
  switch (key) {
    case 'faults':
      return members(value).map(faultInput)
    case 'at':
      return members(value).map(plannedFaultInput)
    case 'toxics':
      return members(value).map(toxicInput)
    default:
      return scalar(value)
  }
}

const members = (value: string): string[] => value.split('+').filter((member) => member !== '')

function scalar(value: string): unknown {
  if (value === 'true' || value === 'false') return value === 'true'
  return /^-?\d+(?:\.\d+)?$/.test(value) ? Number(value) : value
}

function faultInput(text: string): unknown {
  const [kind = '', ...settings] = text.split(':')
  const first = isFaultKind(kind) ? Object.keys(parametersOf(kind))[0] : undefined
  return settings.length === 0 ? kind : { kind, ...named(regrouped(settings), first ?? kind) }
}

function plannedFaultInput(text: string): unknown {
  const [, position = text, fault = ''] = /^([^:]*):?(.*)$/s.exec(text) ?? []
  const [request = '', attempt = '1'] = position.split('.')
  return { request: scalar(request), attempt: scalar(attempt), fault: faultInput(fault) }
}

function toxicInput(text: string): unknown {
  const [type = '', ...settings] = text.split(':')
  const first = isToxicType(type) ? Object.keys(TOXICS[type].attributes)[0] : undefined
  const { stream, toxicity, ...attributes } = named(settings, first ?? type)
  return {
    type,
    attributes,
    ...(stream === undefined ? {} : { stream }),
    ...(toxicity === undefined ? {} : { toxicity }),
  }
}

function named(settings: readonly string[], first: string): Record<string, unknown> {
  return Object.fromEntries(
    settings.map((setting) => {
      const equals = setting.indexOf('=')
      return equals < 0 ? [first, scalar(setting)] : [setting.slice(0, equals), scalar(setting.slice(equals + 1))]
    }),
  )
}

/** `retryAfter=date:2s` contains a colon: what follows `=date` belongs to it. */
function regrouped(settings: readonly string[]): string[] {
  const out: string[] = []
  for (const setting of settings) {
    const last = out.at(-1)
    if (last?.endsWith('=date')) out[out.length - 1] = `${last}:${setting}`
    else out.push(setting)
  }
  return out
}

/** One line per fault and toxic: its name, its settings and its effect. For help texts. */
export const FAULT_LINES: readonly string[] = [
  ...Object.entries(FAULT_KINDS).map(([kind, row]) => line(kind, settingsShown(row.parameters), row.does)),
  ...Object.entries(TOXICS).map(([type, row]) => line(`toxics=${type}`, attributesShown(row.attributes), row.does)),
]

function line(name: string, settings: readonly string[], does: string): string {
  return `${[name, ...settings].join(':')}  ${does}`
}

function settingsShown(parameters: Readonly<Record<string, Parameter>>): string[] {
  return Object.entries(parameters).map(([key, parameter]) => `${key}=${String(parameter.default) || '…'}`)
}

function attributesShown(attributes: Readonly<Record<string, number>>): string[] {
  return Object.entries(attributes).map(([key, value]) => `${key}=${value}`)
}
