/** Keeps the last value that was made, as long as what it was made of stays the same. */
export class Memo<T> {
  #made: { readonly of: readonly unknown[]; readonly value: T } | undefined

  get(of: readonly unknown[], make: () => T): T {
    const made = this.#made
    if (made !== undefined && made.of.length === of.length && made.of.every((part, at) => part === of[at]))
      return made.value
    const value = make()
    this.#made = { of, value }
    return value
  }
}
