/** Accepted requests under their idempotency keys. */
import { Fault } from '@breakfall/faults'
import { type Statements, textIn } from './sqlite-statements.ts'
import type { KeyRow } from './store.ts'

export class SqliteKeys {
  readonly #sql: Statements

  constructor(sql: Statements) {
    this.#sql = sql
  }

  get(scope: string, key: string): KeyRow | undefined {
    const row = this.#sql.get('SELECT request_hash, receipt FROM keys WHERE scope=? AND key=?', scope, key)
    if (row === undefined) return undefined
    return { scope, key, requestHash: textIn(row, 'request_hash'), receipt: textIn(row, 'receipt') }
  }

  refuseTaken(key: KeyRow | undefined): void {
    if (key === undefined || this.get(key.scope, key.key) === undefined) return
    throw new Fault('idempotency_conflict', { errorRaw: `key ${key.key} is taken` })
  }

  put(key: KeyRow | undefined): void {
    if (key === undefined) return
    const sql = 'INSERT INTO keys(scope, key, request_hash, receipt) VALUES (?,?,?,?)'
    this.#sql.run(sql, key.scope, key.key, key.requestHash, key.receipt)
  }

  removeAll(scope: string): void {
    this.#sql.run('DELETE FROM keys WHERE scope=?', scope)
  }
}
