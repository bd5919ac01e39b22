/** Fixed names: event types, states, reasons, headers. Free of zod, for browsers. */

export const EVENT_TYPES = [
  'turn-queued',
  'turn-start',
  'step-start',
  'text-delta',
  'reasoning-delta',
  'part-discarded',
  'tool-draft',
  'tool-call',
  'tool-output',
  'tool-result',
  'retry',
  'compacted',
  'parked',
  'resumed',
  'taken-over',
  'box-moved',
  'model-server',
  'approval-requested',
  'approval',
  'turn-end',
  'turn-error',
] as const
export type EventType = (typeof EVENT_TYPES)[number]

export const RETRY_ACTIONS = ['retry', 'resolve', 'resume', 'fallback'] as const
export const TOOL_OUTCOMES = ['ok', 'failed', 'unknown', 'cancelled'] as const
export const RESUME_REASONS = ['time', 'signal', 'person', 'restart'] as const
export const APPROVAL_DECISIONS = ['allow', 'deny', 'allow_session'] as const
export type ApprovalDecision = (typeof APPROVAL_DECISIONS)[number]

/** What a parked turn waits for. */
export const WAITS_FOR = [
  'runner', // the runner answers
  'model', // the model's address accepts connections
  'journal', // there is disk space again
  'config', // a key, a token or a setting changed
  'time', // nothing to probe: try again later
  'restart', // the daemon is back
  'person', // a person says so
] as const
/** What it asks: for as many steps again, or whether a call may run. */
export const QUESTIONS = ['steps', 'approval'] as const

export const CANCEL_ACTORS = ['user', 'client_lost', 'deadline', 'shutdown', 'superseded'] as const

/** Whether the answer of a finished turn stopped at the model's token limit. */
export const isCutOff = ({ finish }: { readonly finish?: string | null | undefined }): boolean => finish === 'length'

export const SESSION_STATES = ['idle', 'busy', 'parked'] as const
export const TURN_STATES = ['queued', 'running', 'retrying', 'parked', 'finished', 'failed', 'cancelled'] as const
/** What a prompt does if a turn of another session is working in the same folder. */
export const SAME_FOLDER = ['wait', 'share', 'refuse'] as const
export type SameFolder = (typeof SAME_FOLDER)[number]

/** What a list of sessions can be filtered by: how the last turn is or ended, and what needs a person. */
export const SESSION_FILTERS = [
  'needs',
  'parked',
  'retrying',
  'running',
  'queued',
  'finished',
  'failed',
  'cancelled',
  'unknown',
  'idle',
] as const
export type SessionFilter = (typeof SESSION_FILTERS)[number]
export type SessionState = (typeof SESSION_STATES)[number]
export type TurnState = (typeof TURN_STATES)[number]

/** Why a box moved to another runner. */
export const MOVE_REASONS = ['dropped', 'silent'] as const

export const RUNNER_STATES = ['live', 'draining', 'lost'] as const

/** Built-in tools. */
export const TOOL_NAMES = ['bash', 'read', 'write', 'edit', 'process'] as const
export type ToolName = (typeof TOOL_NAMES)[number]

/** Lists of names that a runner knows: what its machine's tools download from. */
export const NETWORK_PRESETS = ['npm', 'pypi', 'crates', 'go', 'github', 'debian'] as const

/** How a server of tools is. */
export const MCP_STATES = ['starting', 'ready', 'restarting', 'failed'] as const

/** Largest prompt that fits into a request body. */
export const PROMPT_CHARS_MAX = 1024 * 1024

/** Largest system prompt that a user may set. */
export const SYSTEM_CHARS_MAX = 64 * 1024

export const WS_METHODS = [
  'prompt',
  'cancel',
  'resume',
  'subscribe',
  'unsubscribe',
  'sessions',
  'session',
  'watch',
] as const
export type WsMethod = (typeof WS_METHODS)[number]
export const WS_PROTOCOL = 'breakfall.v1'
export const WS_TOKEN_PREFIX = 'breakfall.token.'

/** Request headers that name the runner the caller means, and the epoch of the calling owner. */
export const RUNNER_HEADER = 'x-breakfall-runner'
export const EPOCH_HEADER = 'x-breakfall-epoch'
/** Which daemon of several answered. */
export const DAEMON_HEADER = 'x-breakfall-daemon'
export const REQUEST_ID_HEADER = 'x-request-id'

export function isTerminal(event: { readonly type: string }): boolean {
  return event.type === 'turn-end' || event.type === 'turn-error'
}
