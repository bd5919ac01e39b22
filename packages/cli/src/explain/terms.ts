/**
 * What the words mean that our output prints beside the categories: how a command ended, why trying stopped, where a turn
 * stands. Total over the tables that they come from, so that a new word does not compile until it is explained.
 */
import type { Reason } from '@breakfall/faults'
import type { StartReason } from '@breakfall/supervisor'
import type { EXEC_CAUSES, RESUME_REASONS, SPAWN_FAILURES, TOOL_OUTCOMES, TURN_STATES } from '@breakfall/wire'

type ListWords<T extends readonly string[]> = T[number]

export type Word =
  | ListWords<typeof EXEC_CAUSES>
  | ListWords<typeof SPAWN_FAILURES>
  | ListWords<typeof TURN_STATES>
  | ListWords<typeof TOOL_OUTCOMES>
  | ListWords<typeof RESUME_REASONS>
  | StartReason
  | Reason
  | 'taken_over'

/** A category of the same name (`cancelled`, `not_found`, `spawn_failed`, …) is explained as that. */
export const WORDS: Readonly<Record<Word, string>> = {
  // what a turn lived through
  taken_over:
    'the daemon was restarted in the middle of the turn. Another one picked the turn up at its last safe point: what was finished is not repeated, an unfinished answer is asked for again. There is nothing to do; if it happens often, look at why the daemon ends',

  // where a turn stands
  queued: 'the turn waits for the one before it in its session',
  running: 'the turn is being worked on',
  retrying: 'the last try failed, and the next one follows after a wait',
  parked:
    'the turn waits, durably, for something named: a time, the network, the runner, credentials or space. It goes on by itself under "breakfall up", at once with "breakfall resume ID", or in its folder with "breakfall run --continue"',
  finished: 'the turn came to its end, and the answer is proven to be whole',
  failed: 'it ended without success; of a command: it exited with another code than 0',
  cancelled: 'somebody wanted it to end',

  // how a tool's call ended
  ok: 'the command ran and exited with 0',
  unknown: 'nobody can know whether the command ran, so it is not run again; look at what it would have changed',

  // what woke a parked turn
  time: 'the time that it waited for had come',
  signal: 'what it waited for was there again, or the configuration had changed',
  person: 'somebody resumed it',
  restart: 'the daemon was started again',

  // how a command in a box ended
  exited: 'the command ended by itself; its exit code says how',
  signaled: 'a signal ended the command',
  timed_out: 'the command took longer than it was given, so it was ended with all that it had started',
  oom_killed: 'the command needed more memory than its box has; raise limits.memoryMb, or let it use less',
  killed: 'the command was killed by request',
  box_stopped: 'its box was stopped',
  output_limit: 'the command printed more than is kept, so it was ended; let it print less, or into a file',
  spawn_failed: 'the command could not be started',
  runner_lost: 'the runner lost sight of the command, so nobody knows how it ended',

  // why a command could not be started
  not_found: 'there is no such command; install it, or use its full path',
  not_executable: 'the file may not be executed; chmod +x, or name its interpreter',
  bad_interpreter: 'the interpreter in its first line is not there',
  wrong_architecture: 'the program was built for another kind of computer',
  cwd_missing: 'the folder that it was to start in is not there',
  cwd_not_directory: 'what it was to start in is not a folder',
  cwd_forbidden: 'this user may not enter the folder that it was to start in',
  argument_too_long: 'its arguments or its environment are longer than the system allows',
  no_process: 'the machine, or the box, had no process left for it; raise limits.pids, or end what runs',
  no_space: 'the disk of the runner had no room for what has to be written down first; free some',
  sandbox_failed: 'the sandbox could not be set up; "breakfall doctor" tells why',
  resources: 'the system had no processes, files or memory left for it',
  other: 'nothing known',

  // why it goes on, waits, or stopped
  transient: 'the trouble may pass, so it is tried again after a growing wait',
  retry_after: 'the other side said how long to wait',
  moved: 'the address was looked up again',
  crashed: 'the process ended, and is started again',
  context_too_long: 'the conversation was too long for the model, so the oldest tool results were dropped',
  next_model: 'the next model of the fallback list is asked',
  retry_after_too_long:
    'the other side asked for a wait that is too long to sit through, so the turn is parked until then',
  needs_action: 'a person has to do something first: a key, credit, a setting',
  waiting_for_recovery: 'the turn waits until what it needs is there again',
  not_retryable: 'the same again would fail again',
  deadline_passed: 'the time for the whole turn is over; see --deadline-ms',
  side_effects_unknown: 'it may have had an effect, so it is not repeated',
  attempts_spent: 'all tries of this step are used up; see --attempts-max',
  failures_spent: 'the turn has had as many failures as it may; see --failures-max',
  wait_spent: 'the turn has waited between tries as long as it may; see --wait-ms-max',
  resolves_spent: 'the runner was looked up as often as makes sense',
  restarts_spent: 'it was restarted as often as makes sense',
  already_compacted: 'the conversation was shortened once, and is still too long',
  parking_off: 'it would have waited, but parking is off; see --park',
  parks_spent: 'the turn has been parked as often as it may',
  park_time_spent: 'the turn has been parked as long as it may; see --park-ms-max',
}

export const isWord = (text: string): text is Word => Object.hasOwn(WORDS, text)
