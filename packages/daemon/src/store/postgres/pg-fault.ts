/**
 * What an error of PostgreSQL or of its connection means. Its codes are stable; its texts are not looked at, except for one notice
 * that has no separate code.
 */
import { Fault, isFault } from '@breakfall/faults'

/**
 * `connection`: it is unknown whether the statement took effect; the same statement again, on a new connection. `again`: it took no
 * effect, and the same statement may succeed at once. `statement`: something in it is wrong, perhaps in one session of many.
 */
export type PgTrouble = 'connection' | 'again' | 'statement'

export function troubleOf(error: unknown): PgTrouble {
  const code = sqlState(error)
  if (code === undefined) return 'connection' // not an answer of the server: the socket, the name, the time
  if (AGAIN.has(code)) return 'again'
  return AWAY.test(code) ? 'connection' : 'statement'
}

/** Our own faults pass unchanged. */
export function pgFault(error: unknown): Fault {
  if (isFault(error)) return error
  const init = { cause: error, boundary: 'journal' as const }
  const code = sqlState(error)
  if (code !== undefined && FULL.has(code)) return new Fault('journal_full', init)
  if (troubleOf(error) !== 'statement') return unreachable(error)
  if (code?.startsWith('XX') === true) return new Fault('journal_corrupt', init)
  return new Fault('other', init)
}

export const unreachable = (cause?: unknown): Fault => new Fault('journal_unreachable', { cause, boundary: 'journal' })

/** Five characters, the class in the first two. */
export function sqlState(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !/^E[A-Z]{4}$/.test(code) ? code : undefined
}

/** Which unique index a value was already in. */
export function conflictIn(error: unknown): string | undefined {
  if (sqlState(error) !== '23505') return undefined
  return error instanceof Error && 'constraint' in error ? String(error.constraint) : ''
}

/** A synchronous standby was not heard of: the commit is visible here, and a failover may still lose it. */
export const isUnreplicated = (notice: { readonly code?: string | undefined; readonly message?: string | undefined }) =>
  notice.code === '01000' && /replicated/.test(notice.message ?? '')

// ---- details ----

const AGAIN: ReadonlySet<string> = new Set(['40001', '40P01']) // serialisation failure, deadlock

const FULL: ReadonlySet<string> = new Set(['53100', '53200']) // disk, memory

/** Connection errors, too many connections, shut down or starting up, read-only because it is a standby now. */
const AWAY = /^(?:08|25006|53300|57P)/
