/** How hard and how long to try. The names are those of the API, the config and the flags. */

export type RetryPolicy = {
  readonly attemptsMax: number
  readonly failuresMax: number
  readonly waitMsMax: number
  readonly park: 'auto' | 'never'
  readonly parkMsMax: number
  readonly backoffMs: number
}

export type Policy = RetryPolicy & {
  readonly outcomeUnknown: 'tell' | 'stop'
  readonly stepsMax: number
  readonly deadlineMs: number | null
  readonly connectMs: number
  readonly headersMs: number
  readonly livenessMs: number
  readonly progressMs: number
}

export const POLICY_DEFAULTS = {
  attemptsMax: 6, // one first try and five more: at 20 % faults a step fails for good once in 15,000
  failuresMax: 60, // of a whole turn: a 50-step turn at 20 % faults sees about 12
  waitMsMax: 30 * 60_000, // waiting between tries, in a whole turn; longer waits are for parking
  park: 'auto',
  parkMsMax: 24 * 3_600_000, // quotas that reset daily are waited for, a dead project is not
  outcomeUnknown: 'tell', // the model can look at the workspace and find out
  stepsMax: 200, // a runaway loop ends on the same day
  deadlineMs: null,
  backoffMs: 500, // one slot turnover of a local model server
  connectMs: 10_000, // a server that is there accepts within one lost SYN or two
  headersMs: 300_000, // local servers load a model before they send headers
  livenessMs: 120_000, // silence without any byte, pings included: eight missed 15 s pings
  progressMs: 600_000, // pings but no output: models have been seen to think for over eight minutes
} as const satisfies Policy

/** Limits that no policy changes. */
export const LIMITS = {
  backoffMsMax: 30_000,
  retryAfterMsMax: 60_000, // longer than that a sleep would hide from people what is going on: park
  parksMax: 20,
  probeMsFirst: 5_000,
  probeMsMax: 60_000,
  resolvesMax: 8,
  resolveMsMax: 30_000, // sandboxes wake within seconds; past that the turn parks
  restartsMax: 5, // of a child, or of our own process without progress
} as const
