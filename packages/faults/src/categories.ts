/**
 * The one table of failures. A row per category; every other map in the system is total over its keys, so a new row does not
 * compile until each map has an entry for it.
 *
 * A category never changes its name or meaning. A client that does not know a category falls back to its `class`.
 */

/** The kind of failure, for readers that do not know the category. */
export const FAULT_CLASSES = [
  'transient', // the same request may succeed later
  'throttled', // the other side asked for fewer requests
  'needs_action', // a person has to change something first
  'invalid', // the request is wrong, or wrong for this state
  'cancelled', // someone wanted it to end: neither success nor failure
  'internal', // our own mistake, or something unrecognised
  'unknown_outcome', // it may or may not have happened, and there is no way to know
] as const
export type FaultClass = (typeof FAULT_CLASSES)[number]

/** The part of the system that it happened at. */
export const BOUNDARIES = ['client', 'model', 'runner', 'box', 'process', 'journal', 'daemon', 'mcp'] as const
export type Boundary = (typeof BOUNDARIES)[number]

/** What the system does about it. Not "retryable: true": a retry is one of six answers. */
export const NEXT_STEPS = ['never', 'retry', 'resolve', 'restart', 'compact', 'park'] as const
export type NextStep = (typeof NEXT_STEPS)[number]

export type FaultRow = {
  readonly class: FaultClass
  readonly boundary: Boundary
  readonly next: NextStep
  readonly http: number
  /** Short, for a heading: the `title` of the problem document. */
  readonly title: string
}

export const FAULTS = {
  // ---- runner ----
  runner_unreachable: {
    class: 'transient',
    boundary: 'runner',
    next: 'resolve',
    http: 503,
    title: 'The tool runner is not reachable',
  },
  runner_identity_mismatch: {
    class: 'transient',
    boundary: 'runner',
    next: 'resolve',
    http: 421,
    title: 'Another runner answered',
  },
  runner_protocol_error: {
    class: 'internal',
    boundary: 'runner',
    next: 'never',
    http: 502,
    title: "The server does not speak the runner's protocol",
  },
  runner_auth_failed: {
    class: 'needs_action',
    boundary: 'runner',
    next: 'park',
    http: 401,
    title: 'The runner rejected the token',
  },
  runner_not_available: { class: 'needs_action', boundary: 'runner', next: 'park', http: 503, title: 'No runner fits' },
  isolation_unavailable: {
    class: 'needs_action',
    boundary: 'runner',
    next: 'never',
    http: 501,
    title: 'This machine cannot isolate commands as requested',
  },

  // ---- boxes and execs ----
  box_not_found: { class: 'invalid', boundary: 'box', next: 'never', http: 404, title: 'No such box' },
  box_stopped: { class: 'invalid', boundary: 'box', next: 'never', http: 409, title: 'The box is stopped' },
  box_invalid_state: {
    class: 'invalid',
    boundary: 'box',
    next: 'never',
    http: 409,
    title: 'The box cannot take commands now',
  },
  box_already_exists: { class: 'invalid', boundary: 'box', next: 'never', http: 409, title: 'The box already exists' },
  quota_exceeded: { class: 'throttled', boundary: 'box', next: 'never', http: 429, title: 'Quota exceeded' },
  exec_not_found: { class: 'invalid', boundary: 'box', next: 'never', http: 404, title: 'No such exec' },
  exec_conflict: {
    class: 'invalid',
    boundary: 'box',
    next: 'never',
    http: 409,
    title: 'The exec id is taken by another command',
  },
  exec_finished: { class: 'invalid', boundary: 'box', next: 'never', http: 409, title: 'The exec has ended' },
  spawn_failed: { class: 'invalid', boundary: 'box', next: 'never', http: 422, title: 'The command cannot be run' },
  exec_timed_out: {
    class: 'transient',
    boundary: 'box',
    next: 'never',
    http: 504,
    title: 'The command ran out of time',
  },
  exec_outcome_unknown: {
    class: 'unknown_outcome',
    boundary: 'box',
    next: 'never',
    http: 502,
    title: "The command's outcome is unknown",
  },
  exec_output_limit: {
    class: 'invalid',
    boundary: 'box',
    next: 'never',
    http: 413,
    title: 'The command wrote more than allowed',
  },
  file_not_found: { class: 'invalid', boundary: 'box', next: 'never', http: 404, title: 'No such file' },
  precondition_failed: { class: 'invalid', boundary: 'box', next: 'never', http: 412, title: 'The file has changed' },
  range_not_satisfiable: {
    class: 'invalid',
    boundary: 'box',
    next: 'never',
    http: 416,
    title: 'The range is outside the file',
  },
  checkpoint_not_found: { class: 'invalid', boundary: 'box', next: 'never', http: 404, title: 'No such checkpoint' },
  workspace_busy: { class: 'invalid', boundary: 'box', next: 'never', http: 409, title: 'The workspace is in use' },
  checkpoint_conflict: { class: 'invalid', boundary: 'box', next: 'never', http: 409, title: 'Files changed outside' },
  lease_lost: { class: 'invalid', boundary: 'box', next: 'never', http: 409, title: 'Another owner has taken over' },

  // ---- model ----
  model_unreachable: {
    class: 'transient',
    boundary: 'model',
    next: 'retry',
    http: 503,
    title: 'The model server is not reachable',
  },
  model_stream_interrupted: {
    class: 'transient',
    boundary: 'model',
    next: 'retry',
    http: 502,
    title: 'The model stream broke off',
  },
  model_stream_stalled: {
    class: 'transient',
    boundary: 'model',
    next: 'retry',
    http: 504,
    title: 'The model stream went silent',
  },
  model_stream_incomplete: {
    class: 'transient',
    boundary: 'model',
    next: 'retry',
    http: 502,
    title: 'The model stream ended without proof of completion',
  },
  tool_call_truncated: {
    class: 'transient',
    boundary: 'model',
    next: 'retry',
    http: 502,
    title: 'The model cut a tool call short',
  },
  model_rate_limited: {
    class: 'throttled',
    boundary: 'model',
    next: 'retry',
    http: 429,
    title: 'The model provider limits the request rate',
  },
  model_quota_exhausted: {
    class: 'needs_action',
    boundary: 'model',
    next: 'park',
    http: 429,
    title: 'The quota with the model provider is used up',
  },
  model_overloaded: {
    class: 'throttled',
    boundary: 'model',
    next: 'retry',
    http: 503,
    title: 'The model provider is overloaded',
  },
  model_server_error: {
    class: 'transient',
    boundary: 'model',
    next: 'retry',
    http: 502,
    title: 'The model server failed',
  },
  model_auth_failed: {
    class: 'needs_action',
    boundary: 'model',
    next: 'park',
    http: 401,
    title: 'The model provider rejected the credentials',
  },
  model_bad_request: {
    class: 'invalid',
    boundary: 'model',
    next: 'never',
    http: 400,
    title: 'The model provider rejected the request',
  },
  model_history_invalid: {
    class: 'invalid',
    boundary: 'model',
    next: 'never',
    http: 400,
    title: 'The model provider rejected the history',
  },
  model_context_overflow: {
    class: 'invalid',
    boundary: 'model',
    next: 'compact',
    http: 413,
    title: 'The conversation is longer than the model can read',
  },
  model_content_filtered: {
    class: 'invalid',
    boundary: 'model',
    next: 'never',
    http: 422,
    title: 'The model provider filtered the content',
  },
  model_not_found: { class: 'invalid', boundary: 'model', next: 'never', http: 404, title: 'No such model' },
  model_endpoint_invalid: {
    class: 'needs_action',
    boundary: 'model',
    next: 'never',
    http: 502,
    title: "The model server's address or certificate is wrong",
  },
  network_down: {
    class: 'transient',
    boundary: 'model',
    next: 'park',
    http: 503,
    title: 'This machine has no network',
  },

  // ---- child processes ----
  process_failed: {
    class: 'transient',
    boundary: 'process',
    next: 'restart',
    http: 502,
    title: 'A child process failed',
  },
  process_start_failed: {
    class: 'needs_action',
    boundary: 'process',
    next: 'never',
    http: 502,
    title: 'A child process could not be started',
  },
  process_hung: {
    class: 'transient',
    boundary: 'process',
    next: 'restart',
    http: 504,
    title: 'A child process stopped responding',
  },
  crash_loop: { class: 'internal', boundary: 'process', next: 'park', http: 503, title: 'A process keeps crashing' },

  // ---- tools from outside ----
  mcp_server_failed: {
    class: 'transient',
    boundary: 'mcp',
    next: 'restart',
    http: 502,
    title: 'An MCP server failed',
  },
  mcp_unreachable: {
    class: 'transient',
    boundary: 'mcp',
    next: 'retry',
    http: 503,
    title: 'An MCP server is not reachable',
  },
  mcp_auth_failed: {
    class: 'needs_action',
    boundary: 'mcp',
    next: 'park',
    http: 401,
    title: 'An MCP server rejected the credentials',
  },
  mcp_protocol_error: {
    class: 'internal',
    boundary: 'mcp',
    next: 'never',
    http: 502,
    title: 'An MCP server broke the protocol',
  },
  tool_not_offered: { class: 'invalid', boundary: 'mcp', next: 'never', http: 404, title: 'No such tool' },
  approval_needed: {
    class: 'needs_action',
    boundary: 'daemon',
    next: 'park',
    http: 409,
    title: 'A tool call needs an approval',
  },
  steps_spent: {
    class: 'needs_action',
    boundary: 'daemon',
    next: 'park',
    http: 409,
    title: 'No steps left',
  },

  // ---- journal ----
  journal_full: {
    class: 'transient',
    boundary: 'journal',
    next: 'park',
    http: 507,
    title: 'No space left for the journal',
  },
  journal_unreachable: {
    class: 'transient',
    boundary: 'journal',
    next: 'retry',
    http: 503,
    title: 'The journal is not reachable',
  },
  journal_corrupt: {
    class: 'internal',
    boundary: 'journal',
    next: 'never',
    http: 500,
    title: 'The journal is damaged',
  },

  // ---- client, and everywhere ----
  cancelled: { class: 'cancelled', boundary: 'client', next: 'never', http: 499, title: 'Cancelled' },
  deadline_exceeded: {
    class: 'transient',
    boundary: 'daemon',
    next: 'never',
    http: 504,
    title: 'The deadline has passed',
  },
  daemon_unreachable: {
    class: 'transient',
    boundary: 'daemon',
    next: 'retry',
    http: 503,
    title: 'The daemon is not reachable',
  },
  shutting_down: {
    class: 'transient',
    boundary: 'daemon',
    next: 'retry',
    http: 503,
    title: 'The service is shutting down',
  },
  session_busy: { class: 'invalid', boundary: 'daemon', next: 'never', http: 409, title: 'The session is busy' },
  turn_not_parked: { class: 'invalid', boundary: 'daemon', next: 'never', http: 409, title: 'The turn is not parked' },
  idempotency_conflict: {
    class: 'invalid',
    boundary: 'client',
    next: 'never',
    http: 409,
    title: 'The Idempotency-Key was used with another body',
  },
  invalid_request: {
    class: 'invalid',
    boundary: 'client',
    next: 'never',
    http: 400,
    title: 'The request is invalid',
  },
  unauthorized: {
    class: 'needs_action',
    boundary: 'client',
    next: 'never',
    http: 401,
    title: 'A valid token is required',
  },
  forbidden: {
    class: 'invalid',
    boundary: 'client',
    next: 'never',
    http: 403,
    title: 'The request is not allowed',
  },
  not_found: { class: 'invalid', boundary: 'client', next: 'never', http: 404, title: 'Not found' },
  method_not_allowed: { class: 'invalid', boundary: 'client', next: 'never', http: 405, title: 'Method not allowed' },
  payload_too_large: { class: 'invalid', boundary: 'client', next: 'never', http: 413, title: 'The body is too large' },
  unsupported_media_type: {
    class: 'invalid',
    boundary: 'client',
    next: 'never',
    http: 415,
    title: 'Unsupported content type',
  },
  other: { class: 'internal', boundary: 'daemon', next: 'never', http: 500, title: 'Something unexpected happened' },
} as const satisfies Record<string, FaultRow>

export type FaultCategory = keyof typeof FAULTS

export function isFaultCategory(value: unknown): value is FaultCategory {
  return typeof value === 'string' && Object.hasOwn(FAULTS, value)
}

export const FAULT_CATEGORIES: readonly FaultCategory[] = Object.keys(FAULTS).filter(isFaultCategory)
