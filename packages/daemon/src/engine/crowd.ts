/**
 * Keeps many turns from acting as one: parked ones that wait for the same thing, and those that a daemon finds when it starts.
 *
 * I1  However many wait for the same thing, it is looked at once in a while, and all of them are told what was seen.
 * I2  However many are ready at the same moment, a few go at once and the others one after another: what has just come back
 *     is not run over.
 */
export class Crowd {
  readonly #lookMs: number
  readonly #looks = new Map<string, { readonly at: number; readonly seen: Promise<unknown> }>()
  #freeAt = Number.NEGATIVE_INFINITY

  /** `lookMs`: for how long a look is good enough for everybody who asks. */
  constructor({ lookMs }: { readonly lookMs: number }) {
    this.#lookMs = lookMs
  }

  /** What the last look at that showed, or a new one where it is too old. The look is nobody's in particular. */
  look<T>(what: string, look: () => Promise<T>): Promise<T> {
    const now = performance.now()
    const last = this.#looks.get(what)
    if (last !== undefined && now - last.at < this.#lookMs) return last.seen as Promise<T> // I1
    const seen = look()
    this.#looks.set(what, { at: now, seen })
    return seen
  }

  /** How long to wait before going on. Nothing, for one who comes alone or with a few others. */
  placeMs(): number {
    const now = performance.now()
    const at = Math.max(now, this.#freeAt - (AT_ONCE - 1) * GAP_MS)
    this.#freeAt = Math.max(now, this.#freeAt) + GAP_MS // I2
    return at - now
  }
}

const AT_ONCE = 10 // what one person has under way goes on without a wait; a model server takes that many
const GAP_MS = 25 // forty a second: a crowd of a thousand is back within half a minute
