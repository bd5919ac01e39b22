/** How often and how long to retry. The API, the config and the flags use the same names. */

export type RetryPolicy = {
  readonly attemptsMax: number
  readonly patienceMs: number
  readonly failuresMax: number
  readonly waitMsMax: number
  readonly park: 'auto' | 'never'
  readonly parkMsMax: number
  readonly backoffMs: number
  /** How often a turn's conversation may be shortened. */
  readonly compactionsMax: number
}

export type Policy = RetryPolicy & {
  readonly outcomeUnknown: 'tell' | 'stop'
  readonly stepsMax: number
  /** How often a turn may make the same call in a row and get the same result; 0 is without a limit. */
  readonly repeatsMax: number
  readonly deadlineMs: number | null
  readonly connectMs: number
  readonly headersMs: number
  readonly livenessMs: number
  readonly progressMs: number
  readonly boxIdleMs: number
  /** Which tool calls wait for a person: none, those that may do harm outside a sandbox, or all. */
  readonly approve: 'never' | 'unsafe' | 'always'
  /** How long a call waits for its approval. */
  readonly approveMsMax: number
}

export const POLICY_DEFAULTS = {
  attemptsMax: 6, // one attempt and five retries: at 20 % faults, one step in 15,000 fails for good
  patienceMs: 120_000, // a server that restarts and loads its model is back by then; retries that cost nothing continue for that long
  failuresMax: 60, // per turn: a 50-step turn at 20 % faults sees about 12
  waitMsMax: 30 * 60_000, // between attempts, per turn; longer waits park the turn
  park: 'auto',
  parkMsMax: 24 * 3_600_000, // long enough for a quota that resets daily
  outcomeUnknown: 'tell', // the model can check the workspace
  stepsMax: 200, // then the turn parks and asks: a runaway loop ends on the same day
  repeatsMax: 0, // off: waiting for something with the same command is no mistake; 8 is a good limit for turns without such waits
  compactionsMax: 50, // each frees about half of the window, so a healthy turn of 200 steps needs fewer
  deadlineMs: null,
  backoffMs: 500, // one slot turnover of a local model server
  connectMs: 10_000, // enough for a running server to accept after a lost SYN or two
  headersMs: 300_000, // local servers load a model before they send headers
  livenessMs: 120_000, // silence without any byte, pings included: eight missed 15 s pings
  progressMs: 600_000, // pings but no output: models have been seen to think for over eight minutes
  boxIdleMs: 10 * 60_000, // a person who reads an answer is back by then; a box is made again within a second
  approve: 'unsafe', // tools of MCP servers, unless trusted and read-only, and commands without a sandbox
  approveMsMax: 24 * 3_600_000, // a person who left in the evening is back by then
} as const satisfies Policy

/**
 * A full policy from the fields that were set. Whoever allows fewer attempts or failures than the default means all of them,
 * so patience is then off unless it was set, too.
 */
export function fullPolicy(set: { readonly [K in keyof Policy]?: Policy[K] | undefined }): Policy {
  const given = Object.fromEntries(Object.entries(set).filter(([, value]) => value !== undefined))
  const policy: Policy = { ...POLICY_DEFAULTS, ...given }
  const { attemptsMax, failuresMax } = POLICY_DEFAULTS
  const isStrict = policy.attemptsMax < attemptsMax || policy.failuresMax < failuresMax
  return isStrict && set.patienceMs === undefined ? { ...policy, patienceMs: 0 } : policy
}

/** Limits that no policy changes. */
export const LIMITS = {
  backoffMsMax: 30_000,
  freeBackoffMsMax: 5_000, // retries that cost nothing: a server that comes back is found soon
  freeBackoffMsFirst: 100, // the least wait before such a retry; doubles up to a second, so a local server is never hammered
  freeBackoffMsLeast: 1_000,
  retryAfterMsMax: 60_000, // a longer sleep would hide from people what is happening: park instead
  cutsMax: 3, // calls of one step that the output limit cuts; a model that can write less at once does so by then
  parksMax: 20,
  probeMsFirst: 5_000,
  probeMsMax: 60_000,
  resolvesMax: 8,
  resolveMsMax: 30_000, // sandboxes wake within seconds; past that the turn parks
  restartsMax: 5, // of the daemon, on one turn without progress
} as const
