/**
 * Random choices with names. Each choice depends on the seed and on its own path only, so a choice can be replaced by the
 * simplest one (0) without changing any other: that is how a failing stream is made smaller.
 */

/** What the shrinker replaces, and what was drawn. Paths look like `/attempt 1/text/words`. */
export type Trace = {
  /** Everything at and below these paths is 0. */
  readonly zeros: ReadonlySet<string>
  /** Choices with a fixed value. */
  readonly fixed: ReadonlyMap<string, number>
  readonly drawn: Map<string, number>
}

export class Dice {
  readonly #state: number
  readonly #path: string
  readonly #trace: Trace | undefined
  readonly #isZero: boolean

  constructor(state: number, trace?: Trace, path = '', isZero = false) {
    this.#state = state
    this.#trace = trace
    this.#path = path
    this.#isZero = isZero
  }

  /** Choices about one thing. */
  in(name: string | number): Dice {
    const path = this.#trace === undefined ? '' : `${this.#path}/${name}`
    const isZero = this.#isZero || this.#trace?.zeros.has(path) === true
    return new Dice(mixed(this.#state, String(name)), this.#trace, path, isZero)
  }

  /** 0 up to `count - 1`. */
  int(name: string | number, count: number): number {
    const drawn = count < 2 ? 0 : Math.floor((mixed(this.#state, String(name)) / 2 ** 32) * count)
    const trace = this.#trace
    if (trace === undefined) return drawn
    const path = `${this.#path}/${name}`
    const value = this.#isZero || trace.zeros.has(path) ? 0 : Math.min(trace.fixed.get(path) ?? drawn, count - 1)
    if (value !== 0) trace.drawn.set(path, value)
    return value
  }

  /** The simplest answer is no. */
  chance(name: string | number, percent: number): boolean {
    return this.int(name, 100) >= 100 - percent
  }

  /** The simplest option is the first. An option that is listed twice is twice as likely. */
  one<Option>(name: string | number, options: readonly Option[]): Option {
    const option = options[this.int(name, options.length)]
    if (option === undefined) throw new Error(`nothing to choose from at ${name}`)
    return option
  }
}

/** The simplest list is empty. */
export const times = <Made>(count: number, make: (index: number) => Made): Made[] =>
  Array.from({ length: count }, (_, index) => make(index))

function mixed(state: number, name: string): number {
  let hash = state ^ 0x811c9dc5
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
