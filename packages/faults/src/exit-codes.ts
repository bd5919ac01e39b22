/** The exit codes of the command line. Total over the table: a new category needs one. */
import type { FaultCategory } from './categories.ts'

export const EXIT_CODES = {
  finished: 0,
  failed: 1,
  usage: 2,
  transient: 3, // parked, or worth a retry later
  credentials: 4, // or an approval: a person has to say yes
  budget: 7,
  unreachable: 125, // daemon or runner
  cancelled: 130,
} as const
export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES]

const { failed, usage, transient, credentials, budget, unreachable, cancelled } = EXIT_CODES

export const EXIT_CODE_BY_CATEGORY: Readonly<Record<FaultCategory, ExitCode>> = {
  runner_unreachable: unreachable,
  runner_identity_mismatch: unreachable,
  runner_protocol_error: failed,
  runner_auth_failed: credentials,
  runner_not_available: transient,
  isolation_unavailable: failed,
  box_not_found: failed,
  box_stopped: failed,
  box_invalid_state: failed,
  box_already_exists: failed,
  quota_exceeded: budget,
  exec_not_found: failed,
  exec_conflict: failed,
  exec_finished: failed,
  spawn_failed: failed,
  exec_timed_out: failed,
  exec_outcome_unknown: failed,
  exec_output_limit: failed,
  file_not_found: failed,
  precondition_failed: failed,
  range_not_satisfiable: failed,
  checkpoint_not_found: failed,
  workspace_busy: failed,
  checkpoint_conflict: failed,
  lease_lost: failed,
  model_unreachable: transient,
  model_stream_interrupted: transient,
  model_stream_stalled: transient,
  model_stream_incomplete: transient,
  tool_call_truncated: transient,
  model_rate_limited: transient,
  model_quota_exhausted: transient,
  model_overloaded: transient,
  model_server_error: transient,
  model_auth_failed: credentials,
  model_bad_request: failed,
  model_history_invalid: failed,
  model_context_overflow: failed,
  model_content_filtered: failed,
  model_not_found: failed,
  model_endpoint_invalid: failed,
  network_down: transient,
  process_failed: transient,
  process_start_failed: failed,
  process_hung: transient,
  crash_loop: failed,
  mcp_server_failed: transient,
  mcp_unreachable: transient,
  mcp_auth_failed: credentials,
  mcp_protocol_error: failed,
  tool_not_offered: failed,
  approval_needed: credentials,
  steps_spent: budget,
  journal_full: transient,
  journal_unreachable: transient,
  journal_corrupt: failed,
  cancelled,
  deadline_exceeded: budget,
  daemon_unreachable: unreachable,
  shutting_down: transient,
  session_busy: failed,
  turn_not_parked: failed,
  idempotency_conflict: failed,
  invalid_request: usage,
  unauthorized: credentials,
  forbidden: failed,
  not_found: failed,
  method_not_allowed: failed,
  payload_too_large: failed,
  unsupported_media_type: failed,
  other: failed,
}

/** If a budget ended the retries, the code is 7, regardless of the last failure. */
export function exitCodeOf(fault: { category: FaultCategory; stopped?: string | undefined }): ExitCode {
  if (fault.stopped === 'failures_spent' || fault.stopped === 'wait_spent' || fault.stopped === 'steps_spent')
    return budget
  return EXIT_CODE_BY_CATEGORY[fault.category]
}
