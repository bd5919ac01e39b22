/**
 * The terms that our output prints beside categories: how a command ended, why retrying stopped, what state a turn is in. Total over
 * the tables that they come from: a new term does not compile until it is explained here.
 */
import type { Reason } from '@breakfall/faults'
import type { StartReason } from '@breakfall/supervisor'
import type { EXEC_CAUSES, RESUME_REASONS, SPAWN_FAILURES, TOOL_OUTCOMES, TURN_STATES } from '@breakfall/wire'
import { cmd } from '../../process/command-name.ts'

type Member<T extends readonly string[]> = T[number]

export type Term =
  | Member<typeof EXEC_CAUSES>
  | Member<typeof SPAWN_FAILURES>
  | Member<typeof TURN_STATES>
  | Member<typeof TOOL_OUTCOMES>
  | Member<typeof RESUME_REASONS>
  | StartReason
  | Reason
  | 'taken_over'

/** A term that is also a category (`cancelled`, `not_found`, `spawn_failed`, …) is explained as the category. */
export const TERMS: Readonly<Record<Term, string>> = {
  // what happened to a turn
  taken_over:
    'the daemon restarted during the turn, and the new one continued it from its last safe point. Finished work is not repeated; an unfinished answer is requested again. Nothing to do; if it happens often, check why the daemon ends',

  // the state of a turn
  queued: 'the turn waits for the one before it in its session',
  running: 'a daemon is working on the turn',
  retrying: 'the last attempt failed; the next one follows after a wait',
  parked: `the turn is saved and waits for something: a time, the network, the runner, credentials or disk space. It continues automatically under "${cmd('up')}", unless it waits for credentials or other set-up; at once with "${cmd('resume')} ID", or in its folder with "${cmd('run')} --continue"`,
  finished: 'the turn is done, and its answer is complete',
  failed: 'it ended with an error; a command: it exited with a code other than 0',
  cancelled: 'it was cancelled',

  // the outcome of a tool call
  ok: 'the command ran and exited with 0',
  unknown: 'it is unknown whether the command ran, so it is not repeated; check what it would have changed',

  // what resumed a parked turn
  time: 'the time it waited for has come',
  signal: 'what it waited for is back, or the configuration changed',
  person: 'a user resumed it',
  restart: 'the daemon restarted',

  // how a command in a box ended
  exited: 'the command exited; see its exit code',
  signaled: 'a signal killed the command',
  timed_out: 'the command exceeded its time limit and was killed, with everything it had started',
  oom_killed: 'the command needed more memory than its box has; raise limits.memoryMb, or make it use less',
  killed: 'the command was killed on request',
  box_stopped: 'its box was stopped',
  output_limit: 'the command printed more than its limit and was killed; make it print less, or write to a file',
  spawn_failed: 'the command could not start',
  runner_lost: 'the runner lost track of the command, so its outcome is unknown',

  // why a command could not start
  not_found: 'there is no such command; install it, or use its full path',
  not_executable: 'the file is not executable; chmod +x, or call its interpreter',
  bad_interpreter: 'the interpreter in its first line does not exist',
  wrong_architecture: 'the program was built for another CPU architecture',
  cwd_missing: 'its working folder does not exist',
  cwd_not_directory: 'its working folder is not a folder',
  cwd_forbidden: 'the user cannot enter its working folder',
  argument_too_long: 'its arguments or its environment exceed the system limit',
  no_process: 'the machine or the box has reached its process limit; raise limits.pids, or end other processes',
  no_space: "the runner's disk is full; free some space",
  sandbox_failed: `the sandbox could not be set up; "${cmd('doctor')}" says why`,
  resources: 'the system is out of processes, files or memory',
  other: 'no known cause',

  // why Breakfall continues, waits or stops
  transient: 'the problem is likely temporary, so Breakfall retries with growing waits',
  retry_after: 'the server said how long to wait',
  moved: 'the address was looked up again',
  crashed: 'the process ended and is restarted',
  context_too_long: 'the conversation was too long for the model, so the oldest tool results were dropped',
  output_too_long: 'a tool call was cut off at the output limit, so Breakfall asked the model to write less at once',
  next_model: 'Breakfall fails over to the next model in the fallback list',
  retry_after_too_long: 'the server asked for a wait that is too long to sit through, so the turn is parked until then',
  needs_action: 'somebody has to act first: a key, credit, a setting',
  waiting_for_recovery: 'the turn waits until what it needs is back',
  not_retryable: 'a retry would fail the same way',
  deadline_passed: 'the time limit of the turn has passed; see --deadline-ms',
  side_effects_unknown: 'it may have had an effect, so it is not repeated',
  attempts_spent: 'all attempts of this step are used up; see --attempts-max',
  patience_spent: 'the model server was away, loading or overloaded for too long; see --patience-ms',
  failures_spent: 'the turn has reached its limit of failures; see --failures-max',
  wait_spent: 'the turn has reached its limit of waiting between attempts; see --wait-ms-max',
  resolves_spent: 'the runner was looked up as often as makes sense',
  restarts_spent: 'it was restarted as often as makes sense',
  compactions_spent: 'the conversation was shortened as often as it may be; see --compactions-max',
  cannot_compact:
    'the conversation is too long, and nothing is left to shorten: the prompts and the newest step stay whole',
  cuts_spent: 'the model wrote too much at once again, although Breakfall had asked for less; see outputTokensMax',
  steps_spent: 'the turn has used its steps; resume it or send another prompt to continue; see --steps-max',
  approval_needed: `a tool call waits for a yes or a no; "${cmd('approve')}" gives it; see --approve`,
  parking_off: 'the turn would have been parked, but parking is off; see --park',
  parks_spent: 'the turn has been parked as often as it may',
  park_time_spent: 'the turn has been parked as long as it may; see --park-ms-max',
}

export const isTerm = (text: string): text is Term => Object.hasOwn(TERMS, text)
