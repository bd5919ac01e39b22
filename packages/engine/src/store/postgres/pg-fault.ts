/**
 * What an error of PostgreSQL or of its connection means. Its codes are stable; its texts are not looked at, except for two errors
 * that come without a code.
 */
import { AssertionError } from 'node:assert'
import { Fault, type FaultMessage, isFault } from '@breakfall/faults'

/**
 * `connection`: it is unknown whether the statement took effect; the same statement again, on a new connection. `again`: it took no
 * effect, and the same statement may succeed at once. `statement`: something in it is wrong, perhaps in one session of many; or in our
 * own code, and then every repetition would fail.
 */
export type PgTrouble = 'connection' | 'again' | 'statement'

export function troubleOf(error: unknown): PgTrouble {
  if (isFault(error) || isOwnMistake(error)) return 'statement'
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

/**
 * The same, for whoever named the database: a database that does not exist, or that does not let its user in, is a wrong setting.
 * A daemon that has run with it treats both as `pgFault` does. `action` says what came of the command.
 */
export function openingFault(error: unknown, url: string, action = 'Nothing was started.'): Fault {
  const code = sqlState(error)
  const { hostname, port, username, pathname } = new URL(url)
  const user = decodeURIComponent(username)
  if (code === MISSING_DATABASE) {
    const name = decodeURIComponent(pathname.slice(1)) || user
    const flags = [hostname && `-h ${hostname}`, port && `-p ${port}`, user && `-U ${user}`].filter(
      (flag) => flag !== '',
    )
    const advice = `Create it: ${['createdb', ...flags, name].join(' ')}`
    return wrongSetting({ happened: `PostgreSQL has no database ${name}.`, action, advice }, error)
  }
  if (code !== undefined && REFUSED.has(code)) {
    const happened = `PostgreSQL does not let ${user === '' ? 'this user' : `the user ${user}`} in.`
    return wrongSetting({ happened, action, advice: 'Check user and password in the URL of the store.' }, error)
  }
  if (error instanceof Error && NO_PASSWORD.test(error.message)) {
    const advice = 'Add it to the URL of the store (postgres://USER:PASSWORD@HOST/DATABASE), or set PGPASSWORD.'
    return wrongSetting({ happened: 'PostgreSQL asks for a password.', action, advice }, error)
  }
  const fault = pgFault(error)
  if (fault.category !== 'journal_unreachable') return fault
  const happened = "The journal's database does not answer."
  const advice = 'Check that PostgreSQL runs and can be reached, then run the command again.'
  return new Fault('journal_unreachable', { cause: error, boundary: 'journal', message: { happened, action, advice } })
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

const MISSING_DATABASE = '3D000'
const REFUSED: ReadonlySet<string> = new Set(['28000', '28P01']) // no such role or not from there, a wrong password

/** `pg` has neither a code nor a class for it. */
const NO_PASSWORD = /^SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a/

const wrongSetting = (message: FaultMessage, cause: unknown): Fault =>
  new Fault('invalid_request', { cause, boundary: 'journal', message })

/** What neither a socket nor a server causes. */
const isOwnMistake = (error: unknown): boolean =>
  [TypeError, RangeError, ReferenceError, SyntaxError, AssertionError].some((mistake) => error instanceof mistake)

const AGAIN: ReadonlySet<string> = new Set(['40001', '40P01']) // serialisation failure, deadlock

const FULL: ReadonlySet<string> = new Set(['53100', '53200']) // disk, memory

/** Connection errors, too many connections, shut down or starting up, read-only because it is a standby now. */
const AWAY = /^(?:08|25006|53300|57P)/
