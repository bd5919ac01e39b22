/**
 * The message of each category: what happened, and what you can do. Every sentence is true wherever the category occurs. What
 * Breakfall does next depends on `decide`, so `withDecision` adds that, and no sentence here promises a retry.
 */
import { duration } from './duration.ts'
import type { FaultMessage } from './message.ts'
import type { FaultCategory } from './categories.ts'

/** What a message can mention. All optional: a message must read well without any of them. */
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
  /** The setting that sets the limit. */
  readonly setting?: string | undefined
  /** One more thing that the machine said and a person can use. */
  readonly detail?: string | undefined
}

export function messageFor(category: FaultCategory, facts: Facts = {}): FaultMessage {
  return MESSAGES[category](facts)
}

const MESSAGES: Readonly<Record<FaultCategory, (facts: Facts) => FaultMessage>> = {
  // Word for word part of the contract, and so is that of `box_stopped`: others match this text.
  runner_unreachable: (f) => ({
    happened: `the tool runner is not reachable yet — nothing answers at ${f.address || 'its address'}, so it may still be waking up or may have moved`,
    action: 'retry in a few seconds.',
  }),
  runner_identity_mismatch: (f) => ({
    happened: `Another runner answers${at(f)}, so nothing was run there.`,
    advice: 'If you replaced the runner on purpose, start a new session.',
  }),
  runner_protocol_error: (f) => ({
    happened: `The server${at(f)} does not speak the runner's protocol${detail(f)}.`,
    advice: "Check the runner's URL and version.",
  }),
  runner_auth_failed: (f) => ({
    happened: `The runner${at(f)} rejected the token.`,
    advice: "Put the right token into the runner's token file.",
  }),
  runner_not_available: (f) => ({
    happened: `No runner fits this session${detail(f)}.`,
    action: 'The turn waits until a runner that fits registers.',
    advice: 'Start a runner with "breakfall runner --join", or change what the session asks for.',
  }),
  isolation_unavailable: (f) => ({
    happened: `This machine cannot isolate commands as requested${detail(f)}.`,
    advice: 'Install bubblewrap, ask for a lower level, or allow level "process" explicitly.',
  }),
  box_not_found: (f) => ({
    happened: `There is no ${f.name ? `box ${f.name}` : 'such box'}.`,
    advice: 'It may have been removed. Create it again.',
  }),
  box_stopped: (f) => ({
    happened: `${f.name ? `box ${f.name}` : 'the box'} is stopped`,
    advice: 'start it, or create it with autoStart',
  }),
  box_invalid_state: (f) => ({
    happened: f.boxState
      ? `${box(f)} is ${f.boxState} and cannot take commands now.`
      : `${box(f)} cannot take commands now.`,
    advice: 'Wait until it is running.',
  }),
  box_already_exists: (f) => ({
    happened: `${box(f)} already exists.`,
    advice: 'Choose another id, or use the existing box.',
  }),
  quota_exceeded: (f) => ({
    happened: `This would exceed the quota${limit(f)}.`,
    advice: `Remove something first, or raise ${f.setting || 'the limit'}.`,
  }),
  exec_not_found: (f) => ({
    happened: `There is no ${f.name ? `exec ${f.name}` : 'such exec'} in this box: it never started here, or its record has expired.`,
    advice: 'List the execs of the box to see which exist.',
  }),
  exec_conflict: (f) => ({
    happened: `${f.name ? `Exec id ${f.name}` : 'This exec id'} belongs to another command.`,
    advice: 'Use a new id for a new command.',
  }),
  exec_finished: (f) => ({
    happened: `${f.name ? `Exec ${f.name}` : 'The exec'} has ended, so it takes no more input or signals.`,
    advice: 'Start a new exec.',
  }),
  spawn_failed: (f) => ({
    happened: `Cannot run the command${f.name ? ` ${f.name}` : ''}${detail(f)}.`,
    advice: 'Check its name, its folder and its permissions.',
  }),
  exec_timed_out: (f) => ({
    happened: `The command ran longer than ${f.limit || 'its time limit'}.`,
    action: 'Breakfall ended it and everything that it had started.',
    advice: 'Give it more time or less work.',
  }),
  exec_outcome_unknown: () => ({
    happened:
      'The command started, but the runner that knew its outcome is gone, so it may or may not have had its effect.',
    action: 'Breakfall did not run it again.',
    advice: 'Check the result before you repeat it.',
  }),
  exec_output_limit: (f) => ({
    happened: `The command wrote more than ${f.limit || 'its output limit'}.`,
    action: 'Breakfall ended it and kept what it had written.',
    advice: 'Let it write to a file instead.',
  }),
  file_not_found: (f) => ({
    happened: `There is no ${f.name ? `file ${f.name}` : 'such file'} in the workspace.`,
    advice: 'Check the path.',
  }),
  precondition_failed: (f) => ({
    happened: `${f.name || 'The file'} has changed since you read it, so nothing was written.`,
    advice: 'Read it again.',
  }),
  range_not_satisfiable: (f) => ({
    happened: `The range is outside ${f.name || 'the content'}${limit(f)}.`,
    advice: 'Ask for a range inside it.',
  }),
  checkpoint_not_found: (f) => ({
    happened: `There is no ${f.name ? `checkpoint ${f.name}` : 'such checkpoint'}: it was never taken, or was removed to make room.`,
    advice: 'List the checkpoints to see which exist.',
  }),
  workspace_busy: (f) => ({
    happened: `The workspace is in use${detail(f)}.`,
    action: 'Nothing was changed.',
    advice: 'Wait until it has ended, or end it, and try again.',
  }),
  checkpoint_conflict: (f) => ({
    happened: `Restoring would overwrite changes made outside the box${f.name ? `: ${f.name}` : ''}.`,
    action: 'Nothing was changed.',
    advice: 'Restore only other paths, or use force: a safety checkpoint keeps what is there now.',
  }),
  lease_lost: () => ({
    happened: 'Another owner has taken over, so nothing was done here.',
    advice: 'Continue with the new owner.',
  }),
  model_unreachable: (f) => ({
    happened: `The model server${at(f)} is not reachable${detail(f)}.`,
    advice: 'Check the base URL and that the server is running.',
  }),
  model_stream_interrupted: (f) => ({
    happened: `The model's stream broke off${after(f)}.`,
    advice: 'If this keeps happening, check the server, or the proxy in front of it.',
  }),
  model_stream_stalled: (f) => ({
    happened: `The model sent nothing for ${f.afterMs === undefined ? 'too long' : duration(f.afterMs)}, so the request was ended.`,
    advice: 'Raise the time limits for a slow model.',
  }),
  model_stream_incomplete: () => ({
    happened: "The model's stream ended without its end marker, so the answer may be incomplete.",
    advice: 'If the server never sends one, use a lenient profile.',
  }),
  tool_call_truncated: (f) =>
    f.detail
      ? {
          happened: `The model's call to ${tool(f)} is invalid (${f.detail}), so it was not run.`,
          advice: 'If this keeps happening, use a stronger model.',
        }
      : {
          happened: `The model's call to ${tool(f)} was cut ${f.limit ? `off at the output limit (${f.limit})` : 'short'}, so it was not run.`,
          advice: 'If this keeps happening, raise the output limit.',
        },
  model_rate_limited: (f) => ({
    happened: `The model provider limits the request rate${f.limit ? ` and asks for a wait of ${f.limit}` : ''}.`,
    advice: 'If this happens often, send fewer requests at a time, or add a fallback model.',
  }),
  model_quota_exhausted: () => ({
    happened: 'The quota or credit with the model provider is used up.',
    advice: 'Add credit, or wait for the reset.',
  }),
  model_overloaded: () => ({
    happened: 'The model provider is overloaded.',
    advice: 'If this happens often, add a fallback at another provider.',
  }),
  model_server_error: (f) => ({
    happened: `The model server failed${f.status ? ` with status ${f.status}` : ''}${detail(f)}.`,
    advice: "If this keeps happening, check the server's log, or add a fallback model.",
  }),
  model_auth_failed: (f) => ({
    happened: `The model provider rejected the credentials${status(f)}.`,
    advice: 'Set a valid key.',
  }),
  model_bad_request: (f) => ({
    happened: `The model provider rejected the request${status(f)}${detail(f)}.`,
    advice: 'Change the request: the same one would be rejected again.',
  }),
  model_history_invalid: (f) => ({
    happened: `The model provider rejected the conversation${status(f)}${detail(f)}.`,
    advice: 'Go back to an earlier message or start a new session: every request with this history would be rejected.',
  }),
  model_context_overflow: () => ({
    happened: 'The conversation is longer than the model can read.',
    advice: 'Start a new session, or use a model with a longer context.',
  }),
  model_content_filtered: () => ({
    happened: "The model provider's filter stopped the answer.",
    advice: 'Change the wording.',
  }),
  model_not_found: (f) => ({
    happened: `The model server does not know ${f.name ? `the model ${f.name}` : 'this model or path'}.`,
    advice: "Check the model's name and the base URL.",
  }),
  model_endpoint_invalid: (f) => ({
    happened: `The model server${at(f)} cannot be used as configured${detail(f)}.`,
    advice: 'Check the base URL, the scheme and the certificate.',
  }),
  network_down: () => ({
    happened: 'This machine has no network right now.',
    advice: 'Check its network connection.',
  }),
  process_failed: (f) => ({
    happened: `${f.name || 'A child process'} failed${detail(f)}.`,
    advice: f.name ? 'The last lines that it printed may show the cause.' : undefined,
  }),
  process_start_failed: (f) => ({
    happened: `${f.name || 'A child process'} could not be started${detail(f)}.`,
    advice: 'Fix the cause, then start it again.',
  }),
  process_hung: (f) => ({
    happened: `${f.name || 'A child process'} stopped responding${after(f)}.`,
    advice: 'If it stays like this, end it and look at the last lines that it printed.',
  }),
  crash_loop: (f) => ({
    happened: `${f.name || 'A process'} failed repeatedly without making progress${limit(f)}.`,
    advice: 'The last failure shows the cause: fix that first.',
  }),
  mcp_server_failed: (f) => ({
    happened: `${mcp(f)} failed${detail(f)}.`,
    advice: `Its last lines are in "breakfall mcp logs${f.name ? ` ${f.name}` : ''}".`,
  }),
  mcp_unreachable: (f) => ({
    happened: `${mcp(f)}${at(f)} is not reachable${detail(f)}.`,
    advice: 'Check its URL and that it is running.',
  }),
  mcp_auth_failed: (f) => ({
    happened: `${mcp(f)}${at(f)} rejected the credentials${status(f)}.`,
    advice: `Log in with "breakfall mcp login ${f.name || 'NAME'}", or set a valid token in the variable that headersEnv of [mcp.${f.name || 'NAME'}] names.`,
  }),
  mcp_protocol_error: (f) => ({
    happened: `${mcp(f)} sent something that is not MCP${detail(f)}.`,
    advice: 'Check its command or URL, and its version.',
  }),
  tool_not_offered: (f) => ({
    happened: `${f.name ? `The tool ${f.name}` : 'This tool'} is not offered${f.detail ? `: ${f.detail}` : ''}.`,
    advice: 'Use one of the tools that are offered now.',
  }),
  approval_needed: (f) => ({
    happened: `${f.name ? `The call to ${f.name}` : 'A tool call'} needs your approval${detail(f)}.`,
    advice: 'Approve or deny it with "breakfall approve".',
  }),
  steps_spent: (f) => ({
    happened: `The turn has used its ${f.limit || 'steps'} and is not finished.`,
    advice:
      'Resume it or send another prompt to continue; --steps-max (stepsMax in a config or a request) allows more.',
  }),
  journal_full: () => ({
    happened: 'There is no space left to write the journal, so nothing new starts.',
    advice: 'Free some disk space.',
  }),
  journal_unreachable: (f) => ({
    happened: `The journal's database${at(f)} does not answer${detail(f)}.`,
    action: 'What was accepted before is kept, and work continues when the database is back.',
    advice: 'Check that PostgreSQL runs and can be reached, then send the request again.',
  }),
  journal_corrupt: (f) => ({
    happened: `The journal${f.name ? ` of ${f.name}` : ''} is damaged${detail(f)}.`,
    advice: f.name
      ? 'Restore it from a backup, or start a new session.'
      : 'Restore it from a backup, or move it elsewhere to start with an empty one.',
  }),
  cancelled: (f) => ({ happened: `Cancelled${f.name ? ` by ${f.name}` : ''}${detail(f)}.` }),
  deadline_exceeded: (f) => ({
    happened: `The deadline${limit(f)} has passed.`,
    action: 'Breakfall ended the work.',
    advice: 'Set a later deadline.',
  }),
  daemon_unreachable: (f) => ({
    happened: `The daemon${at(f)} does not answer.`,
    advice: 'Start it with "breakfall up", or check its address.',
  }),
  shutting_down: () => ({
    happened: 'The service is shutting down.',
    advice: 'Reconnect in a moment and continue where you were.',
  }),
  session_busy: (f) => ({
    happened: `The session is busy${f.name ? ` with turn ${f.name}` : ''}.`,
    advice: 'Wait for it, cancel it, or send the prompt with queue: true.',
  }),
  turn_not_parked: (f) => ({
    happened: `The turn is ${f.detail || 'not parked'}, so there is nothing to resume.`,
    advice: 'A running turn continues on its own. If the turn has ended, send a new prompt.',
  }),
  idempotency_conflict: () => ({
    happened: 'This Idempotency-Key was used before with another body.',
    advice: 'Use a new key for a new request.',
  }),
  invalid_request: (f) => ({
    happened: `The request is invalid${f.name ? `: ${f.name}` : ''}${detail(f)}.`,
    advice: 'Correct it and send it again.',
  }),
  unauthorized: () => ({
    happened: 'This request needs a valid token.',
    advice: 'Send the header Authorization: Bearer TOKEN.',
  }),
  forbidden: (f) => ({
    happened: `This service refuses the Host or Origin of the request${detail(f)}.`,
    advice: 'Call the service at its own address.',
  }),
  not_found: (f) => ({
    happened: `There is no ${f.name || 'such thing'} here.`,
    advice: 'Check the name, id or path.',
  }),
  method_not_allowed: (f) => ({
    happened: 'This method is not allowed here.',
    advice: f.limit ? `Use ${f.limit}.` : 'Use another method.',
  }),
  payload_too_large: (f) => ({
    happened: `The body is larger than allowed${limit(f)}.`,
    advice: 'Send or ask for less at a time.',
  }),
  unsupported_media_type: (f) => ({
    happened: 'This content type is not supported here.',
    advice: f.limit ? `Send ${f.limit}.` : 'Send another content type.',
  }),
  other: (f) => ({ happened: `Something unexpected happened${detail(f)}.`, advice: 'The raw error has the details.' }),
}

// ---- details ----

const at = (f: Facts): string => (f.address ? ` at ${f.address}` : '')
const after = (f: Facts): string => (f.afterMs === undefined ? '' : ` after ${duration(f.afterMs)}`)
const detail = (f: Facts): string => (f.detail ? ` (${f.detail})` : '')
const limit = (f: Facts): string => (f.limit ? ` (${f.limit})` : '')
const status = (f: Facts): string => (f.status ? ` (${f.status})` : '')
const box = (f: Facts): string => (f.name ? `Box ${f.name}` : 'The box')
const tool = (f: Facts): string => (f.name ? `tool ${f.name}` : 'a tool')
const mcp = (f: Facts): string => (f.name ? `The MCP server ${f.name}` : 'An MCP server')
