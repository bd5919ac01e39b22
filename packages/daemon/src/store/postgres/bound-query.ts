/** One run of a statement that the server knows by its name, as a single message. Its answer has no rows, only a count. */
import type pg from 'pg'

/** What the server says at the end: `INSERT 0 64`. */
type Completed = { readonly text: string }

export class BoundQuery implements pg.Submittable {
  readonly #message: Buffer
  readonly #end: (error: unknown, count: number) => void
  #count = 0

  constructor(message: Buffer, end: (error: unknown, count: number) => void) {
    this.#message = message
    this.#end = end
  }

  submit(connection: pg.Connection): void {
    connection.stream.write(this.#message)
  }

  handleCommandComplete({ text }: Completed): void {
    this.#count = Number(text.slice(text.lastIndexOf(' ') + 1))
  }

  handleReadyForQuery(): void {
    this.#end(undefined, this.#count)
  }

  handleError(error: unknown): void {
    this.#end(error, 0)
  }
}
