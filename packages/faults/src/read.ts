/** Reads foreign objects without trusting them: a getter or a proxy may throw. */

/** An own or inherited property, or undefined if reading it throws. */
export function read(value: object, key: string): unknown {
  try {
    const property: unknown = Reflect.get(value, key)
    return property
  } catch {
    return undefined // I1: a getter or a proxy trap of a foreign object threw
  }
}

/** Whether it has properties: an object, a list or a function. */
export function isReadable(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}

export function oneOf<T extends string>(list: readonly T[], value: unknown): T | undefined {
  return list.find((entry) => entry === value)
}

/** The entries that are not undefined. */
export function definedOnly<T extends object>(value: T): Given<T> {
  return Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== undefined)) as Given<T>
}

type Given<T> = { readonly [K in keyof T]: Exclude<T[K], undefined> }
