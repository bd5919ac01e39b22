/** Reads fields of unknown JSON. */
import type { Json } from './case.ts'

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

export function objectIn(json: Json, key: string): Json {
  const value = json[key]
  return isObject(value) ? value : {}
}

export function objectsIn(json: Json, key: string): readonly Json[] {
  const value = json[key]
  return Array.isArray(value) ? value.filter(isObject) : []
}

export function textIn(json: Json, key: string): string {
  const value = json[key]
  return typeof value === 'string' ? value : ''
}

export const parsed = (data: string): Json => objectIn({ json: JSON.parse(data) as unknown }, 'json')
