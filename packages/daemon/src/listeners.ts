/** Tells everybody who listens. What happens is told by the part where it happens; who reacts to it is built later and listens. */
export class Listeners<Told extends readonly unknown[]> {
  readonly #listeners: ((...told: Told) => void)[] = []

  add(listener: (...told: Told) => void): void {
    this.#listeners.push(listener)
  }

  tell(...told: Told): void {
    for (const listener of this.#listeners) listener(...told)
  }
}
