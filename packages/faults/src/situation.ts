/**
 * What each boundary knows when something has failed. One type per boundary, with everything that boundary always knows;
 * `decide` reads nothing else.
 */

/** What a turn has used of its budget, and what it may still use. */
type TurnFacts = {
  /** Failures in the whole turn, this one included. */
  readonly failures: number
  /** Milliseconds spent waiting between attempts in the whole turn. */
  readonly waitedMs: number
  readonly parking: Parking
  /** When the turn must be over, in epoch milliseconds. */
  readonly deadlineAt: number | null
}

/** How often and how long the turn was parked. `impossible`: nothing could wake it, as in a library call. */
export type Parking = { readonly used: number; readonly usedMs: number } | 'impossible'

/** A random number between 0 and 1, for the jitter. */
type Dice = { readonly dice: number }

/** A model's answer failed. */
export type AnswerSituation = TurnFacts &
  Dice & {
    readonly at: 'answer'
    /** Attempts made at this step with the current model, the failed one included. */
    readonly attempt: number
    /** The model had started to answer when the attempt failed. */
    readonly contentStarted: boolean
    /** Earlier failures that cost nothing: how many of `attempt` and of `failures`. */
    readonly free: { readonly attempts: number; readonly failures: number }
    /** The last of them in a row, if they led up to this failure: how many, and how long ago the first was. */
    readonly outage: { readonly failures: number; readonly ms: number }
    /** Models left in the fallback list. */
    readonly fallbacks: number
    /** Earlier attempts at this step failed with other categories: the model does not always fail in the same way. */
    readonly hasOtherFaults: boolean
    /** How often the conversation was shortened in this turn. */
    readonly compactions: number
    /** There is something left to shorten. */
    readonly canCompact: boolean
    /** Calls of this step that the output limit cut before. The model knows of them. */
    readonly cuts: number
    /** Breakfall can say so in the conversation. It cannot in a library call, or if the conversation is a client's. */
    readonly canTell: boolean
  }

/** A call to a runner failed, and its caller can look up the runner's address again. */
export type RunnerSituation = TurnFacts &
  Dice & {
    readonly at: 'runner'
    /** Look-ups of the runner's address made for this call. */
    readonly resolves: number
    /** Milliseconds since the first failure of this call. */
    readonly resolvingMs: number
  }

/** The daemon's own work on a turn failed (its journal, its set-up). It can park the turn or stop it. */
export type EngineSituation = TurnFacts & { readonly at: 'engine' }

/** The turn reached a limit of its policy. */
type Question = 'steps_spent' | 'approval_needed'
export type LimitSituation = Pick<TurnFacts, 'deadlineAt'> & { readonly at: 'limit'; readonly because: Question }

/** A client failed to call a server at a fixed address: all it can do is call again. */
export type CallSituation = Dice & {
  readonly at: 'call'
  /** Failed calls in a row, this one included. */
  readonly attempt: number
  /** Milliseconds since the first of them began. */
  readonly awayMs: number
  /** A request to a model server: while that server is away, patience bounds the attempts. */
  readonly isPatient?: boolean
}

/** A supervised child failed. */
export type ProcessSituation = Dice & {
  readonly at: 'process'
  /** Failures since the last run that stayed up, this one included. They set the backoff. */
  readonly failuresInARow: number
  /** Failures within the supervisor's window, this one included. They set the end. */
  readonly failuresInWindow: number
  /** The failed run had become ready. */
  readonly wasReady: boolean
  /** What the evidence says about a restart: useless, useless until someone changes something, or worth it. */
  readonly verdict: 'never' | 'after_change' | 'worth_it'
}

export type Situation =
  | AnswerSituation
  | RunnerSituation
  | EngineSituation
  | LimitSituation
  | CallSituation
  | ProcessSituation
