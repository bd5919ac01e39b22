/** Room for another box at a runner that is full. Whoever can release boxes makes it. */
export class BoxRoom {
  #make: () => Promise<boolean> = () => Promise.resolve(false)

  madeBy(make: () => Promise<boolean>): void {
    this.#make = make
  }

  /** Releases boxes of idle sessions. True if there is room now. */
  reclaim(): Promise<boolean> {
    return this.#make()
  }
}
