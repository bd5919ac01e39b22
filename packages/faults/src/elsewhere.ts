/** Which failures are one server's own: another model may succeed. */
import type { Boundary, FaultCategory, FAULTS } from './categories.ts'

type CategoryAt<B extends Boundary> = {
  [C in FaultCategory]: (typeof FAULTS)[C]['boundary'] extends B ? C : never
}[FaultCategory]

/**
 * Whether the next model in the list may do better. Total over the faults of a model and of the child that serves one: a
 * new category does not compile without an entry.
 */
export const MAY_ASK_NEXT_MODEL: Readonly<Record<CategoryAt<'model' | 'process'>, boolean>> = {
  // One server, connection, account or name failed:
  model_unreachable: true,
  model_stream_interrupted: true,
  model_stream_stalled: true,
  model_stream_incomplete: true,
  tool_call_truncated: true,
  model_rate_limited: true,
  model_quota_exhausted: true,
  model_overloaded: true,
  model_server_error: true,
  model_auth_failed: true,
  model_not_found: true,
  model_endpoint_invalid: true,
  network_down: true, // the route to one host is down; the next model may be on this machine
  process_failed: true,
  process_start_failed: true,
  process_hung: true,
  crash_loop: true,
  // The request itself is the problem, and every model gets the same one:
  model_bad_request: false,
  model_history_invalid: true, // each server has its own rules for a conversation, and its own thoughts and ids
  model_context_overflow: false, // the cure is to compact
  model_content_filtered: false, // Breakfall does not shop around for a model that answers
}
