/**
 * The friendly sentence of each category: what happened, what Breakfall did about it, what you can do.
 * Only true sentences: what is promised here is what `decide` does by default.
 */
import type { Reason } from './decide.ts'
import type { FaultCategory } from './table.ts'

/** What a sentence may mention. All optional: a sentence must read well without any of them. */
export type Facts = {
  /** Host and port, or a URL without credentials. */
  readonly address?: string | undefined
  readonly status?: number | undefined
  /** Name of the thing: a box, a model, a file, a command, a field. */
  readonly name?: string | undefined
  readonly boxState?: string | undefined
  /** How long it took or waited. */
  readonly afterMs?: number | undefined
  readonly limit?: string | undefined
  /** One more thing that the machine said and a person can use. */
  readonly detail?: string | undefined
}

export function friendly(category: FaultCategory, facts: Facts = {}): string {
  return MESSAGES[category](facts)
}

/** The sentence of a fault that a turn waits on. `until` says for what, or until when, and what happens then. */
export function waitingWords(error: string, until: string): string {
  return concluded(error.replace(YOUR_TRY, ''), `The turn waits ${until}.`)
}

/** What a sentence says of what will be done gives way to what is so instead. */
export function concluded(error: string, conclusion: string): string {
  return `${error
    .replace(MORE_TRIES, '')
    .replace(WAITING, '')
    .replace(/[.\s]*$/, '.')} ${conclusion}`
}

/** The sentence of a fault with which trying has stopped. As it was, where it says already that it was not tried again. */
export function lastWords(error: string, because: Reason, tries?: number): string {
  const why = STOPPED[because]
  if (why === undefined) return error
  const tried = tries === undefined ? '' : ` tried ${tries === 1 ? 'once' : `${tries} times`} and`
  return concluded(error, `Breakfall${tried} stopped: ${why}.`)
}

const MESSAGES: Readonly<Record<FaultCategory, (facts: Facts) => string>> = {
  runner_unreachable: (f) =>
    `the tool runner is not reachable yet — ${f.address ? `nothing answers at ${f.address}` : 'nothing answers at its address'}, so it may still be waking up or may have moved; retry in a few seconds.`,
  runner_identity_mismatch: (f) =>
    `another runner answers${at(f)}, so nothing was run there; the right one is looked up again. If it was replaced on purpose, start a new session.`,
  runner_protocol_error: (f) =>
    `what answers${at(f)} does not speak the runner's protocol${detail(f)}; check the runner's URL and version.`,
  runner_auth_failed: (f) =>
    `the runner${at(f)} refused our token; put the right one into the runner's token file, then the turn goes on.`,
  isolation_unavailable: (f) =>
    `this machine cannot isolate commands as asked${detail(f)}; install bubblewrap, ask for less, or allow level "process" explicitly.`,
  box_not_found: (f) =>
    `there is no ${f.name ? `box ${f.name}` : 'such box'}; it may have been removed. Create it again.`,
  box_stopped: (f) => `${box(f)} is stopped; start it, or create it with autoStart`,
  box_invalid_state: (f) =>
    `${box(f)} is ${f.boxState ?? 'in another state'}, so it takes no commands now; wait until it is running.`,
  box_already_exists: (f) => `${box(f)} exists already; choose another id, or use that one.`,
  quota_exceeded: (f) =>
    `that would be over the quota${f.limit ? ` (${f.limit})` : ''}; remove something first, or raise the limit.`,
  exec_not_found: (f) =>
    `there is no ${f.name ? `exec ${f.name}` : 'such exec'} in this box; it was never started here, or its record has expired.`,
  exec_conflict: (f) =>
    `${f.name ? `exec id ${f.name}` : 'that exec id'} belongs to another command; use a new id for a new command.`,
  exec_finished: (f) => `${f.name ? `exec ${f.name}` : 'the exec'} is over, so it takes no more input or signals.`,
  spawn_failed: (f) =>
    `the command${f.name ? ` ${f.name}` : ''} cannot be run${detail(f)}; check its name, its folder and its permissions.`,
  exec_timed_out: (f) =>
    `the command ran longer than ${f.limit ?? 'its time limit'} and was ended with everything it had started; give it more time or less work.`,
  exec_outcome_unknown: () =>
    'the command was started, but the runner that knew its outcome is gone, so it may or may not have had its effect; it was not run again. Look before you repeat it.',
  exec_output_limit: (f) =>
    `the command wrote more than ${f.limit ?? 'it may'} and was ended; what it wrote until then is kept. Write to a file instead.`,
  file_not_found: (f) => `there is no file ${f.name ?? 'of that name'} in the workspace.`,
  precondition_failed: (f) =>
    `${f.name ?? 'the file'} has changed since you read it, so nothing was written; read it again.`,
  range_not_satisfiable: (f) => `the range lies outside ${f.name ?? 'the content'}${f.limit ? ` (${f.limit})` : ''}.`,
  lease_lost: () => 'another owner has taken this over, so nothing was done here; go on with the new owner.',
  model_unreachable: (f) =>
    `the model server${at(f)} is not reachable${detail(f)}; it is tried again while tries last. Check the base URL and that the server runs.`,
  model_stream_interrupted: (f) =>
    `the model's stream broke off${after(f)}; what was unfinished is dropped and asked for again while tries last. If it keeps happening, look at the proxy or server in between.`,
  model_stream_stalled: (f) =>
    `the model sent nothing${f.afterMs === undefined ? ' for too long' : ` for ${duration(f.afterMs)}`}; the request was ended and is tried again while tries last. Raise the time limits for a slow model.`,
  model_stream_incomplete: () =>
    "the model's stream ended without saying that it was complete, so it is not trusted; it is asked for again while tries last. Servers that never say so need a lenient profile.",
  tool_call_truncated: (f) =>
    f.detail
      ? `the model's call of ${f.name ? `tool ${f.name}` : 'a tool'} is not whole (${f.detail}), so it was not run; it is asked for again while tries last. Try a stronger model if it keeps happening.`
      : `the model's call of ${f.name ? `tool ${f.name}` : 'a tool'} was cut short, so it was not run; it is asked for again while tries last. Raise the output limit if it keeps happening.`,
  model_rate_limited: (f) =>
    `the model provider asks for fewer requests; ${f.limit ? `it said to wait ${f.limit}` : 'Breakfall waits and tries again'}.`,
  model_quota_exhausted: () =>
    'the quota or credit with the model provider is used up; the turn waits. Add credit or wait for the reset, then it goes on by itself or by "resume".',
  model_overloaded: () => 'the model provider is overloaded; Breakfall waits and tries again.',
  model_server_error: (f) =>
    `the model server failed${f.status ? ` with status ${f.status}` : ''}${detail(f)}; it is tried again while tries last.`,
  model_auth_failed: (f) =>
    `the model provider refused the credentials${f.status ? ` (${f.status})` : ''}; set a valid key, then the turn goes on.`,
  model_bad_request: (f) =>
    `the model provider refused the request${f.status ? ` (${f.status})` : ''}${detail(f)}; the same request would be refused again.`,
  model_context_overflow: () =>
    'the conversation is longer than the model can read; the oldest tool results are dropped once. Start a new session or use a model with a longer context if that is not enough.',
  model_content_filtered: () =>
    "the model provider's filter stopped the answer; it is not asked for again. Change the wording.",
  model_not_found: (f) =>
    `the model server does not know ${f.name ? `the model ${f.name}` : 'that model or path'}; check the model's name and the base URL.`,
  model_endpoint_invalid: (f) =>
    `the model server${at(f)} cannot be used as it is configured${detail(f)}; check the base URL, the scheme and the certificate. Trying again would not help.`,
  network_down: () => 'this machine has no network right now; the turn waits and goes on when it is back.',
  process_failed: (f) => `${f.name ?? 'a child process'} failed${detail(f)}; it is restarted.`,
  process_start_failed: (f) =>
    `${f.name ?? 'a child process'} could not be started${detail(f)}; it is not tried again until that is mended.`,
  process_hung: (f) => `${f.name ?? 'a child process'} stopped answering${after(f)}; it is ended and restarted.`,
  crash_loop: (f) =>
    `${f.name ?? 'it'} failed again and again without getting further${f.limit ? ` (${f.limit})` : ''}, so trying has stopped; the last failure says why.`,
  journal_full: () =>
    'there is no room left to write the journal, so nothing is started; free some space and the turn goes on.',
  journal_corrupt: (f) =>
    `the journal${f.name ? ` of ${f.name}` : ''} is damaged${detail(f)}; it was set aside untouched and the rest goes on.`,
  cancelled: (f) => `cancelled${f.name ? ` by ${f.name}` : ''}${detail(f)}`,
  deadline_exceeded: (f) =>
    `the time allowed${f.limit ? ` (${f.limit})` : ''} is over, so the work was ended; give it a later deadline to go on.`,
  daemon_unreachable: (f) => `the daemon${at(f)} does not answer; start it with "breakfall up", or check its address.`,
  shutting_down: () => 'the service is shutting down; connect again in a moment and go on where you were.',
  session_busy: (f) =>
    `the session is busy${f.name ? ` with turn ${f.name}` : ''}; wait for it, cancel it, or send the prompt with queue: true.`,
  turn_not_parked: (f) => `the turn is ${f.detail ?? 'not parked'}, so there is nothing to resume.`,
  idempotency_conflict: () =>
    'that Idempotency-Key was used before with another body; use a new key for a new request.',
  invalid_request: (f) => `the request is not valid${f.name ? `: ${f.name}` : ''}${detail(f)}`,
  unauthorized: () => 'a valid token is needed: send Authorization: Bearer TOKEN.',
  forbidden: (f) => `requests from there are refused${detail(f)}; call the service by its own address.`,
  not_found: (f) => `there is no ${f.name ?? 'such thing'} here.`,
  method_not_allowed: (f) => `that method is not allowed here${f.limit ? `; use ${f.limit}` : ''}.`,
  payload_too_large: (f) => `the body is larger than allowed${f.limit ? ` (${f.limit})` : ''}.`,
  unsupported_media_type: (f) => `that content type is not understood here${f.limit ? `; send ${f.limit}` : ''}.`,
  other: (f) => `something unexpected happened${detail(f)}; the raw error says more.`,
}

// ---- details ----

/** As the sentences above say it. */
const MORE_TRIES = /; [^;.]* again while tries last/
/** Who waits is told when it goes on, not to try it himself. */
const YOUR_TRY = /; retry in a few seconds/
const WAITING = / The turn waits [^.]*\.$/

const STOPPED: Partial<Readonly<Record<Reason, string>>> = {
  attempts_spent: 'all tries are spent',
  failures_spent: 'there were too many failures in this turn',
  wait_spent: 'the time for waiting in this turn is used up',
  retry_after_too_long: 'the wait that was asked for is too long to sit through',
  deadline_passed: 'the next try would come after the deadline',
  parking_off: 'parking is off',
  parks_spent: 'the turn was parked as often as it may be',
  park_time_spent: 'the turn was parked for as long as it may be',
  side_effects_unknown: 'it may have had an effect already, and is not repeated',
}

const at = (f: Facts): string => (f.address ? ` at ${f.address}` : '')
const after = (f: Facts): string => (f.afterMs === undefined ? '' : ` after ${duration(f.afterMs)}`)
const detail = (f: Facts): string => (f.detail ? ` (${f.detail})` : '')
const box = (f: Facts): string => (f.name ? `box ${f.name}` : 'the box')

/** 420 ms, 3.5 s, 4 min 5 s, 2 h 10 min. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 120) return seconds % 60 >= 1 ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${minutes} min`
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
