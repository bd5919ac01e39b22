/** How long a client keeps calling a runner that does not answer: long enough for a restart, about six seconds on average. */
import { LIMITS, POLICY_DEFAULTS, type RetryPolicy } from '@breakfall/faults'

export const RUNNER_AWAY: RetryPolicy = {
  ...POLICY_DEFAULTS,
  attemptsMax: LIMITS.resolvesMax,
  backoffMs: 100, // a runner that restarts listens again within a second
  waitMsMax: LIMITS.resolveMsMax,
}
