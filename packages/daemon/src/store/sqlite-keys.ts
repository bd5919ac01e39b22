/**
 * Accepted requests under their idempotency keys.
 *
 * I1  The key that created a session counts as long as the session exists. Its row may stay for a while: rows are sorted by
 *     key, so finding the one of a session would read all of them.
 */
import { Fault } from '@breakfall/faults'
import { type Statements, textIn } from './sqlite-statements.ts'
import { CREATED, type KeyRow } from './store.ts'

export class SqliteKeys {
  readonly #sql: Statements

  constructor(sql: Statements) {
    this.#sql = sql
  }

  get(scope: string, key: string): KeyRow | undefined {
    const row = this.#sql.get('SELECT request_hash, receipt FROM keys WHERE scope=? AND key=?', scope, key)
    if (row === undefined) return undefined
    if (scope === CREATED && this.#sql.get(EXISTS, textIn(row, 'receipt')) === undefined) return undefined // I1
    return { scope, key, requestHash: textIn(row, 'request_hash'), receipt: textIn(row, 'receipt') }
  }

  refuseTaken(key: KeyRow | undefined): void {
    if (key === undefined || this.get(key.scope, key.key) === undefined) return
    throw new Fault('idempotency_conflict', { errorRaw: `key ${key.key} is taken` })
  }

  put(key: KeyRow | undefined): void {
    if (key === undefined) return
    const sql = 'INSERT OR REPLACE INTO keys(scope, key, request_hash, receipt) VALUES (?,?,?,?)'
    this.#sql.run(sql, key.scope, key.key, key.requestHash, key.receipt)
  }

  removeAll(scope: string): void {
    this.#sql.run('DELETE FROM keys WHERE scope=?', scope)
  }

  /** I1: those of sessions that were deleted. */
  removeLeft(): void {
    this.#sql.run('DELETE FROM keys WHERE scope=? AND receipt NOT IN (SELECT id FROM sessions)', CREATED)
  }
}

// ---- details ----

const EXISTS = 'SELECT 1 FROM sessions WHERE id=?'
