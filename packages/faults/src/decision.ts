/** What `decide` can say, and why. */

export const REASONS = [
  // why it continues
  'transient',
  'retry_after',
  'moved',
  'crashed',
  'context_too_long',
  'output_too_long',
  'next_model',
  // why it waits
  'retry_after_too_long',
  'needs_action',
  'waiting_for_recovery',
  // why it stopped (or, for a turn that parks, why it is no longer retried at once)
  'not_retryable',
  'cancelled',
  'deadline_passed',
  'side_effects_unknown',
  'attempts_spent',
  'patience_spent',
  'failures_spent',
  'wait_spent',
  'resolves_spent',
  'restarts_spent',
  'compactions_spent',
  'cannot_compact',
  'cuts_spent',
  'steps_spent',
  'approval_needed',
  'parking_off',
  'parks_spent',
  'park_time_spent',
] as const
export type Reason = (typeof REASONS)[number]

export type Decision =
  | {
      readonly action: 'retry' | 'resolve' | 'restart' | 'compact' | 'fallback'
      readonly delayMs: number
      readonly because: Reason
    }
  | { readonly action: 'park'; readonly resumeAt: number | null; readonly because: Reason }
  | { readonly action: 'stop'; readonly because: Reason }
