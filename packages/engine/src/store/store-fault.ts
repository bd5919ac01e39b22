/** Gives the errors of SQLite and of the file system a category. */
import { Fault, isFault } from '@breakfall/faults'

/** Our own faults pass unchanged; SQLite's codes get a category. */
export function storeFault(error: unknown): Fault {
  if (isFault(error)) return error
  const primary = sqliteCode(error)
  const init = { cause: error, boundary: 'journal' as const }
  if (primary === SQLITE.full || primary === SQLITE.ioError || primary === SQLITE.readOnly) {
    return new Fault('journal_full', init)
  }
  if (primary === SQLITE.corrupt || primary === SQLITE.notADatabase) return new Fault('journal_corrupt', init)
  if (isUnreadableText(error)) return new Fault('journal_corrupt', init)
  if (error instanceof Error && 'code' in error && error.code === 'ENOSPC') return new Fault('journal_full', init)
  return new Fault('other', init)
}

/** SQLite's primary result code, if that is where the error came from. */
function sqliteCode(error: unknown): number | undefined {
  const code = error instanceof Error && 'errcode' in error ? error.errcode : undefined
  return typeof code === 'number' ? code & 0xff : undefined
}

// ---- details ----

/** What a store keeps as JSON was JSON when it was written. SQLite reads some of it itself. */
const isUnreadableText = (error: unknown): boolean =>
  error instanceof SyntaxError || (error instanceof Error && error.message === 'malformed JSON')

const SQLITE = { readOnly: 8, ioError: 10, corrupt: 11, full: 13, notADatabase: 26 } as const
