/** Checks of values from outside, put together from small ones. */
import { isObject } from '@breakfall/faults/internal'

export type Guard<T> = (value: unknown) => value is T

export type Check = (value: unknown) => boolean
export type Fields = Readonly<Record<string, Check>>

export function shape<T>(wanted: Fields): Guard<T> {
  const check = fields(wanted)
  return (value): value is T => check(value)
}

export function fields(wanted: Fields): Check {
  return (value) => isObject(value) && Object.entries(wanted).every(([name, check]) => check(value[name]))
}

export function orNull(check: Check): Check {
  return (value) => value === null || check(value)
}

export function orUndefined(check: Check): Check {
  return (value) => value === undefined || check(value)
}

export function listOf(check: Check): Check {
  return (value) => Array.isArray(value) && value.every(check)
}

export function isText(value: unknown): value is string {
  return typeof value === 'string'
}

export function isNumber(value: unknown): value is number {
  return typeof value === 'number'
}

/** A newer daemon may use a category that this version does not know, so any name passes. */
export function isReport(value: unknown): boolean {
  return isObject(value) && isText(value['category']) && isText(value['error']) && isText(value['errorRaw'])
}
