/** What one row of the signature table says. */
import type { Diagnostic } from '@breakfall/faults'

/** Whether the same start can go better: never, after a while, or only after somebody changed something. */
export const RETRY_VERDICTS = ['never', 'after_backoff', 'after_change'] as const
export type RetryVerdict = (typeof RETRY_VERDICTS)[number]

export type Signature = {
  readonly id: string
  /** `cause` outranks `consequence` outranks `hint`; a hint never says that anything failed. */
  readonly rank: Diagnostic['rank']
  /** The process is of no use after this line, even if it lives on. */
  readonly fatal?: boolean
  readonly retry: RetryVerdict
  readonly pattern: RegExp
  readonly message: string
  readonly advice: string
  /** What the match itself says, added to the message in parentheses. */
  readonly detail?: (match: RegExpExecArray) => string | undefined
}
