/**
 * What the page reads from the daemon besides events, and how it checks it. A newer daemon may add fields and an older one may
 * lack some, so everything that a screen can do without is optional, and a wrong value never reaches a component.
 */
import { fields, isText } from '@breakfall/client/internal'
import { isObject } from '@breakfall/faults/internal'
import type { Session } from '@breakfall/wire'

export type Json = Readonly<Record<string, unknown>>

export { isText }
export const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)
export const isFlag = (value: unknown): value is boolean => typeof value === 'boolean'
export const isJson: (value: unknown) => value is Json = isObject
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
export const textOf = (value: unknown, otherwise = ''): string => (isText(value) ? value : otherwise)
export const numberOf = (value: unknown, otherwise = 0): number => (isNumber(value) ? value : otherwise)
export const textOrNull = (value: unknown): string | null => (isText(value) ? value : null)
export const jsonOf = (value: unknown): Json => (isJson(value) ? value : {})
export const jsonOrNull = (value: unknown): Json | null => (isJson(value) ? value : null)

type Checked<C> = { readonly [K in keyof C]: C[K] extends ((value: unknown) => value is infer T) ? T : never }

export function hasFields<const C extends Readonly<Record<string, (value: unknown) => boolean>>>(
  value: unknown,
  checks: C,
): value is Checked<C> {
  return fields(checks)(value)
}

/** Enough of a session for a list. */
export const isSession = (value: unknown): value is Session =>
  hasFields(value, { id: isText, state: isText, model: isText, createdAt: isText, lastSeq: isNumber }) &&
  (!('turn' in value) || value.turn === null || isTurnSummary(value.turn))

const isTurnSummary = (value: unknown): boolean =>
  hasFields(value, { id: isText, state: isText, prompt: isText, steps: isNumber, marks: isText })

export type Counts = Readonly<Record<string, number>>

export function countsOf(value: unknown): Counts {
  return Object.fromEntries(
    Object.entries(jsonOf(value)).flatMap(([name, count]) => (isNumber(count) ? [[name, count] as const] : [])),
  )
}

/** `GET /v1/system`, as far as the page relies on it. `raw` has the rest. */
export type System = {
  readonly bootId: string
  readonly version: string
  readonly startedAt: string
  readonly tokenFile: string
  readonly workspaces: readonly string[]
  readonly gateway: boolean
  readonly chaos: boolean
  readonly raw: Json
}

export function systemOf(value: unknown): System | null {
  if (!isJson(value)) return null
  return {
    bootId: textOf(value['bootId']),
    version: textOf(value['version']),
    startedAt: textOf(value['startedAt']),
    tokenFile: textOf(value['tokenFile']),
    workspaces: listOf(value['workspaces']).filter(isText),
    gateway: value['gateway'] === true || isJson(value['gateway']),
    chaos: value['chaos'] === true || isJson(value['chaos']),
    raw: value,
  }
}
