/** One row of the signature table. */
import type { Diagnostic } from '@breakfall/faults'

/** Whether the same start can succeed later: never, after a while, or only after a change. */
export type RetryVerdict = 'never' | 'after_backoff' | 'after_change'

export type Signature = {
  readonly id: string
  /** `cause` outranks `consequence`, which outranks `hint`. A hint alone never means that something failed. */
  readonly rank: Diagnostic['rank']
  /** The process is useless after this line, even if it stays alive. */
  readonly fatal?: boolean
  readonly retry: RetryVerdict
  readonly pattern: RegExp
  readonly message: string
  readonly advice: string
  /** A detail from the match, added to the message in parentheses. */
  readonly detail?: (match: RegExpExecArray) => string | undefined
}

/** For patterns whose first group is a port. */
export const portIn = ([, port]: RegExpExecArray): string | undefined =>
  port === undefined ? undefined : `port ${port}`
/** For patterns whose first group says it all, such as a name or a size. */
export const firstGroup = ([, text]: RegExpExecArray): string | undefined => text
