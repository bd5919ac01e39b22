/** Runs one task at a time, in order of arrival. A failed task does not affect the next one. */
export class Mutex {
  #last: Promise<unknown> = Promise.resolve()

  run<T>(task: () => T | Promise<T>): Promise<T> {
    const result = this.#last.then(task)
    this.#last = result.catch(() => undefined) // the caller gets the error; the next task only waits for the end
    return result
  }
}
