/** How far the daemon is on its way out. */
export class Lifecycle {
  #isDraining = false
  #isClosing = false

  /** It accepts nothing more, and turns end their step here and continue elsewhere. */
  get isDraining(): boolean {
    return this.#isDraining
  }

  /** Turns are handed over instead of driven. */
  get isClosing(): boolean {
    return this.#isClosing
  }

  drain(): void {
    this.#isDraining = true
  }

  close(): void {
    this.#isDraining = true
    this.#isClosing = true
  }
}
