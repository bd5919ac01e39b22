/**
 * Which faults are injected, and when, as data. A plan is JSON; reading it is strict and reports every mistake.
 *
 * I1  `faultFor` is a pure function of (plan, request, attempt), so a failed run can be replayed from its seed.
 */
import { Fault, type FieldError } from '@breakfall/faults'
import { isObject } from '@breakfall/faults/internal'
import { didYouMean } from '@breakfall/wire/internal'
import { randomOf } from './random.ts'
import { type ChaosFault, COMMON_FAULTS, type FaultKind, parametersOf } from './fault-kinds.ts'
import { readFault, readToxic, type ReportIssue } from './plan-entries.ts'
import type { Toxic } from './toxics.ts'

/** A request's number in order of first appearance, starting at 1, or its fingerprint. */
export type RequestName = number | string

export type Plan = {
  readonly seed: number
  /** The probability that an attempt is hit, from 0 to 1. */
  readonly rate: number
  /** Picked with equal probability; a fault listed twice comes twice as often. */
  readonly faults: readonly ChaosFault[]
  /** Faults for fixed requests and attempts; they take precedence over the rate. */
  readonly at: readonly { readonly request: RequestName; readonly attempt: number; readonly fault: ChaosFault }[]
  /** The rate applies to this many attempts of a request only, so a client that keeps trying succeeds. */
  readonly attempts: number | null
  /** What identifies a request: its number, or its fingerprint (for clients that send requests in parallel). */
  readonly by: 'ordinal' | 'fingerprint'
  readonly method: string | null
  readonly path: string | null
  /** Faults of the connection, below HTTP, with toxiproxy's names. */
  readonly toxics: readonly Toxic[]
}

/** A plan as people write it: missing fields have defaults, and a fault may be just its name. */
export type PlanInput = Partial<Omit<Plan, 'faults' | 'at' | 'toxics'>> & {
  readonly faults?: readonly (FaultKind | ({ readonly kind: FaultKind } & Readonly<Record<string, unknown>>))[]
  readonly at?: readonly {
    readonly request: RequestName
    readonly attempt?: number
    readonly fault: FaultKind | ({ readonly kind: FaultKind } & Readonly<Record<string, unknown>>)
  }[]
  readonly toxics?: readonly (Partial<Toxic> & { readonly type: Toxic['type'] })[]
}

export type CountedRequest = {
  readonly ordinal: number
  readonly fingerprint: string
  /** How often this request has come, including this time. */
  readonly attempt: number
}

/** The fault for this attempt at this request, with all its settings, or undefined. Pure. */
export function faultFor(plan: Plan, counted: CountedRequest): ChaosFault | undefined {
  const name = plan.by === 'ordinal' ? counted.ordinal : counted.fingerprint
  const fixed = plan.at.find(
    (planned) =>
      planned.attempt === counted.attempt &&
      (planned.request === counted.ordinal || planned.request === counted.fingerprint),
  )
  if (fixed !== undefined) return withSettings(fixed.fault, plan.seed, name, counted.attempt)
  if (plan.attempts !== null && counted.attempt > plan.attempts) return undefined
  if (randomOf(plan.seed, name, counted.attempt, 'hit') >= plan.rate) return undefined
  const picked = plan.faults[Math.floor(randomOf(plan.seed, name, counted.attempt, 'which') * plan.faults.length)]
  return picked && withSettings(picked, plan.seed, name, counted.attempt)
}

/** Reads a plan from parsed JSON. Throws an `invalid_request` fault that names each wrong field. */
export function readPlan(value: unknown): Plan {
  const errors: FieldError[] = []
  const reportIssue: ReportIssue = (field, expected, got, names = []) => {
    const hint = typeof got === 'string' ? didYouMean(got, names) : ''
    errors.push({ field, expected, got: got === undefined ? 'nothing' : (JSON.stringify(got) ?? typeof got) + hint })
    return undefined
  }
  const plan = planFrom(value, reportIssue)
  if (errors.length > 0) throw badPlan(errors)
  return plan
}

export function badPlan(errors: readonly FieldError[], cause?: unknown): Fault {
  const issues = errors.map(({ field, expected, got }) =>
    expected.startsWith(NO_FIELD)
      ? `unknown field ${field}${expected.slice(NO_FIELD.length)}`
      : `${field} must be ${expected}, got ${got}`,
  )
  const error = `The fault plan is not valid: ${issues.join('; ')}`
  return new Fault('invalid_request', { error, errorRaw: error, errors, cause })
}

// ---- details ----

const NO_FIELD = 'no such field'
const PLAN_KEYS = ['seed', 'rate', 'faults', 'at', 'attempts', 'by', 'method', 'path', 'toxics']
const SEEDED_EVENTS = 8 // if a plan leaves the place of a cut to the seed, it is within the first events

function planFrom(value: unknown, reportIssue: ReportIssue): Plan {
  const input = isObject(value) ? value : (reportIssue('the plan', 'an object', value) ?? {})
  for (const key of Object.keys(input)) {
    if (!PLAN_KEYS.includes(key))
      reportIssue(
        key,
        `${NO_FIELD}${didYouMean(key, PLAN_KEYS) || `; choose from ${PLAN_KEYS.join(', ')}`}`,
        input[key],
      )
  }
  const number = (key: string, fallback: number, expected: string, fits: (n: number) => boolean): number => {
    const given = input[key] ?? fallback
    return typeof given === 'number' && fits(given) ? given : (reportIssue(key, expected, given) ?? fallback)
  }
  const text = (key: string, expected: string, fits: (text: string) => boolean): string | null => {
    const given = input[key] ?? null
    if (given === null) return null
    return typeof given === 'string' && fits(given) ? given : (reportIssue(key, expected, given) ?? null)
  }
  const list = (key: string): readonly unknown[] => {
    const given = input[key] ?? []
    return Array.isArray(given) ? given : (reportIssue(key, 'a list', given) ?? [])
  }
  const by = text('by', 'ordinal or fingerprint', (t) => t === 'ordinal' || t === 'fingerprint')
  const named = list('faults').flatMap((fault, i) => readFault(fault, `faults.${i}`, reportIssue) ?? [])
  const attempts = number('attempts', 0, 'a whole number from 1', (n) => Number.isInteger(n) && n >= 0)
  return {
    seed: number('seed', 1, 'a whole number', Number.isSafeInteger),
    rate: number('rate', 0, 'a number from 0 to 1', (n) => n >= 0 && n <= 1),
    faults: named.length > 0 ? named : COMMON_FAULTS.map((kind) => readFault(kind, '', reportIssue) ?? { kind }),
    at: list('at').flatMap((planned, i) => readPlannedFault(planned, `at.${i}`, reportIssue) ?? []),
    attempts: attempts === 0 ? null : attempts,
    by: by === 'fingerprint' ? 'fingerprint' : 'ordinal',
    method: text('method', 'a method name in capitals', (t) => /^[A-Z]+$/.test(t)),
    path: text('path', 'a path that starts with /', (t) => t.startsWith('/')),
    toxics: list('toxics').flatMap((toxic, i) => readToxic(toxic, `toxics.${i}`, reportIssue) ?? []),
  }
}

function readPlannedFault(value: unknown, field: string, reportIssue: ReportIssue): Plan['at'][number] | undefined {
  if (!isObject(value)) return reportIssue(field, 'an object {request, attempt, fault}', value)
  for (const key of Object.keys(value)) {
    if (!['request', 'attempt', 'fault'].includes(key)) reportIssue(`${field}.${key}`, NO_FIELD, value[key])
  }
  const { request, attempt = 1 } = value
  const isName = isCount(request) || (typeof request === 'string' && request !== '')
  if (!isName) reportIssue(`${field}.request`, 'a number from 1 or a fingerprint', request)
  if (!isCount(attempt)) reportIssue(`${field}.attempt`, 'a whole number from 1', attempt)
  const fault = readFault(value['fault'], `${field}.fault`, reportIssue)
  return isName && isCount(attempt) && fault !== undefined ? { request, attempt, fault } : undefined
}

function withSettings(fault: ChaosFault, seed: number, name: RequestName, attempt: number): ChaosFault {
  const out: Record<string, string | number | boolean> = {}
  for (const [key, parameter] of Object.entries(parametersOf(fault.kind))) {
    if (fault[key] !== undefined || parameter.default !== 'seeded') continue
    out[key] = Math.floor(randomOf(seed, name, attempt, key) * SEEDED_EVENTS)
  }
  return { ...fault, ...out }
}

const isCount = (value: unknown): value is number => typeof value === 'number' && Number.isInteger(value) && value >= 1

/** Nothing is injected. */
export const NO_FAULTS: Plan = readPlan({})
