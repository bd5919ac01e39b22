/**
 * What goes wrong and when, as data. A plan is JSON; reading it is strict and names every mistake.
 *
 * I1  `faultFor` is a pure function of (plan, request, attempt): a failing run can be played again from its seed.
 * I2  A request that does not match `method` and `path` is neither hit nor counted.
 */
import { Fault, type FieldError } from '@breakfall/faults'
import { didYouMean } from '@breakfall/wire'
import { throwDice } from './dice.ts'
import { type ChaosFault, COMMON_FAULTS, type FaultKind, parametersOf } from './fault-kinds.ts'
import { readFault, readToxic, type Complain } from './plan-parts.ts'
import type { Toxic } from './toxics.ts'

/** A request's number in order of first appearance, from 1, or its fingerprint. */
export type RequestName = number | string

export type Plan = {
  readonly seed: number
  /** How likely one attempt is to be hit, from 0 to 1. */
  readonly rate: number
  /** Drawn from with equal chances; a fault listed twice comes twice as often. */
  readonly faults: readonly ChaosFault[]
  /** Faults at fixed places; they win over the rate. */
  readonly at: readonly { readonly request: RequestName; readonly attempt: number; readonly fault: ChaosFault }[]
  /** Only the first so many attempts of a request are hit by the rate, so that a patient client surely gets through. */
  readonly attempts: number | null
  /** What names a request for the dice: its number, or its fingerprint (for clients that ask in parallel). */
  readonly by: 'ordinal' | 'fingerprint'
  readonly method: string | null
  readonly path: string | null
  /** Faults of the connection itself, below HTTP, in the words of toxiproxy. */
  readonly toxics: readonly Toxic[]
}

/** A plan as people write it: what is left out has a default, a fault may be a bare name. */
export type PlanInput = Partial<Omit<Plan, 'faults' | 'at' | 'toxics'>> & {
  readonly faults?: readonly (FaultKind | ({ readonly kind: FaultKind } & Readonly<Record<string, unknown>>))[]
  readonly at?: readonly {
    readonly request: RequestName
    readonly attempt?: number
    readonly fault: FaultKind | ({ readonly kind: FaultKind } & Readonly<Record<string, unknown>>)
  }[]
  readonly toxics?: readonly (Partial<Toxic> & { readonly type: Toxic['type'] })[]
}

export type Asked = {
  readonly ordinal: number
  readonly fingerprint: string
  /** From 1: how often this same request has come, this time included. */
  readonly attempt: number
}

/** The fault for this attempt at this request, with all its settings, or none. Pure. */
export function faultFor(plan: Plan, asked: Asked): ChaosFault | undefined {
  const name = plan.by === 'ordinal' ? asked.ordinal : asked.fingerprint
  const fixed = plan.at.find(
    (place) =>
      place.attempt === asked.attempt && (place.request === asked.ordinal || place.request === asked.fingerprint),
  )
  if (fixed !== undefined) return settled(fixed.fault, plan.seed, name, asked.attempt)
  if (plan.attempts !== null && asked.attempt > plan.attempts) return undefined
  if (throwDice(plan.seed, name, asked.attempt, 'hit') >= plan.rate) return undefined
  const drawn = plan.faults[Math.floor(throwDice(plan.seed, name, asked.attempt, 'which') * plan.faults.length)]
  return drawn && settled(drawn, plan.seed, name, asked.attempt)
}

/** Reads a plan from JSON. Throws an `invalid_request` fault that names each wrong field. */
export function readPlan(value: unknown): Plan {
  const errors: FieldError[] = []
  const complain: Complain = (field, expected, got, names = []) => {
    const hint = typeof got === 'string' ? didYouMean(got, names) : ''
    errors.push({ field, expected, got: got === undefined ? 'nothing' : (JSON.stringify(got) ?? typeof got) + hint })
    return undefined
  }
  const plan = planFrom(value, complain)
  if (errors.length > 0) throw badPlan(errors)
  return plan
}

export function badPlan(errors: readonly FieldError[], cause?: unknown): Fault {
  const words = errors.map((e) => `${e.field} must be ${e.expected}, got ${e.got}`).join('; ')
  const error = `the fault plan is not valid: ${words}`
  return new Fault('invalid_request', { error, errorRaw: error, errors, cause })
}

// ---- details ----

const PLAN_KEYS = ['seed', 'rate', 'faults', 'at', 'attempts', 'by', 'method', 'path', 'toxics']
const DICE_EVENTS = 8 // where a setting is left to the dice, a stream is cut within its first events

function planFrom(value: unknown, complain: Complain): Plan {
  const input = isRecord(value) ? value : (complain('the plan', 'an object', value) ?? {})
  for (const key of Object.keys(input)) {
    if (!PLAN_KEYS.includes(key))
      complain(key, `one of ${PLAN_KEYS.join(', ')}${didYouMean(key, PLAN_KEYS)}`, input[key])
  }
  const number = (key: string, fallback: number, expected: string, fits: (n: number) => boolean): number => {
    const given = input[key] ?? fallback
    return typeof given === 'number' && fits(given) ? given : (complain(key, expected, given) ?? fallback)
  }
  const text = (key: string, expected: string, fits: (text: string) => boolean): string | null => {
    const given = input[key] ?? null
    if (given === null) return null
    return typeof given === 'string' && fits(given) ? given : (complain(key, expected, given) ?? null)
  }
  const list = (key: string): readonly unknown[] => {
    const given = input[key] ?? []
    return Array.isArray(given) ? given : (complain(key, 'a list', given) ?? [])
  }
  const by = text('by', 'ordinal or fingerprint', (t) => t === 'ordinal' || t === 'fingerprint')
  const named = list('faults').flatMap((fault, i) => readFault(fault, `faults.${i}`, complain) ?? [])
  const attempts = number('attempts', 0, 'a whole number from 1', (n) => Number.isInteger(n) && n >= 0)
  return {
    seed: number('seed', 1, 'a whole number', Number.isSafeInteger),
    rate: number('rate', 0, 'a number from 0 to 1', (n) => n >= 0 && n <= 1),
    faults: named.length > 0 ? named : COMMON_FAULTS.map((kind) => readFault(kind, '', complain) ?? { kind }),
    at: list('at').flatMap((place, i) => readPlace(place, `at.${i}`, complain) ?? []),
    attempts: attempts === 0 ? null : attempts,
    by: by === 'fingerprint' ? 'fingerprint' : 'ordinal',
    method: text('method', 'a method name in capitals', (t) => /^[A-Z]+$/.test(t)),
    path: text('path', 'a path that starts with /', (t) => t.startsWith('/')),
    toxics: list('toxics').flatMap((toxic, i) => readToxic(toxic, `toxics.${i}`, complain) ?? []),
  }
}

function readPlace(value: unknown, field: string, complain: Complain): Plan['at'][number] | undefined {
  if (!isRecord(value)) return complain(field, 'an object {request, attempt, fault}', value)
  for (const key of Object.keys(value)) {
    if (!['request', 'attempt', 'fault'].includes(key)) complain(`${field}.${key}`, 'no such field', value[key])
  }
  const { request, attempt = 1 } = value
  const isName = (typeof request === 'string' && request !== '') || isCount(request)
  if (!isName) complain(`${field}.request`, 'a number from 1 or a fingerprint', request)
  if (!isCount(attempt)) complain(`${field}.attempt`, 'a whole number from 1', attempt)
  const fault = readFault(value['fault'], `${field}.fault`, complain)
  return fault && { request: request as RequestName, attempt: attempt as number, fault }
}

function settled(fault: ChaosFault, seed: number, name: RequestName, attempt: number): ChaosFault {
  const out: Record<string, string | number | boolean> = { ...fault }
  for (const [key, parameter] of Object.entries(parametersOf(fault.kind))) {
    if (out[key] !== undefined || parameter.default !== 'dice') continue
    out[key] = Math.floor(throwDice(seed, name, attempt, key) * DICE_EVENTS)
  }
  return out as ChaosFault
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isCount = (value: unknown): boolean => Number.isInteger(value) && (value as number) >= 1

/** Nothing is injected. */
export const NO_FAULTS: Plan = readPlan({})
