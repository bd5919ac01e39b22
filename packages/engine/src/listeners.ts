/** Calls all listeners. A part reports its events here; the parts that react are built later and subscribe. */
export class Listeners<Told extends readonly unknown[]> {
  readonly #listeners: ((...told: Told) => void)[] = []

  add(listener: (...told: Told) => void): void {
    this.#listeners.push(listener)
  }

  tell(...told: Told): void {
    for (const listener of this.#listeners) listener(...told)
  }
}
