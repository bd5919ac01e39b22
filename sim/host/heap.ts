/** A binary heap of what will happen, ordered by time and, within a moment, by number. */
export type Happening = { readonly at: number; readonly nr: number }

export class Heap<T extends Happening> {
  readonly #items: T[] = []

  get size(): number {
    return this.#items.length
  }

  peek(): T | undefined {
    return this.#items[0]
  }

  push(item: T): void {
    const items = this.#items
    let at = items.push(item) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = items[parent] as T
      if (!isBefore(item, above)) break
      items[at] = above
      at = parent
    }
    items[at] = item
  }

  pop(): T | undefined {
    const items = this.#items
    const first = items[0]
    const last = items.pop()
    if (first === undefined || last === undefined || items.length === 0) return first
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= items.length) break
      if (child + 1 < items.length && isBefore(items[child + 1] as T, items[child] as T)) child += 1
      const below = items[child] as T
      if (!isBefore(below, last)) break
      items[at] = below
      at = child
    }
    items[at] = last
    return first
  }

  clear(): void {
    this.#items.length = 0
  }
}

// ---- details ----

const isBefore = (a: Happening, b: Happening): boolean => a.at < b.at || (a.at === b.at && a.nr < b.nr)
