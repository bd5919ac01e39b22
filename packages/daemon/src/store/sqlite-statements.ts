/** Prepared statements of one connection by their text. After a failed transaction they stay usable, so they are kept. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'

export type Row = Record<string, unknown>
export type SqlValue = string | number | null | Uint8Array

export class Statements {
  readonly #db: DatabaseSync
  readonly #prepared = new Map<string, StatementSync>()

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  run(sql: string, ...values: SqlValue[]) {
    return this.#of(sql).run(...values)
  }

  get(sql: string, ...values: SqlValue[]): Row | undefined {
    return this.#of(sql).get(...values)
  }

  all(sql: string, ...values: SqlValue[]): Row[] {
    return this.#of(sql).all(...values)
  }

  #of(sql: string): StatementSync {
    let statement = this.#prepared.get(sql)
    if (statement === undefined) {
      statement = this.#db.prepare(sql)
      this.#prepared.set(sql, statement)
    }
    return statement
  }
}
