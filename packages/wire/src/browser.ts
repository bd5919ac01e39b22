/** The part of the wire that needs no zod: fixed names, cursors, SSE, and the types of everything else. */
export type * from './console-api.ts'
export { formatCursor, parseCursor, resumeFrom } from './cursor.ts'
export type * from './daemon-api.ts'
export type * from './mcp-api.ts'
export type * from './events.ts'
export {
  EPOCH_HEADER,
  EVENT_TYPES,
  type EventType,
  isCutOff,
  isTerminal,
  REQUEST_ID_HEADER,
  RESUME_REASONS,
  RUNNER_HEADER,
  SESSION_STATES,
  type SessionState,
  TOOL_NAMES,
  TOOL_OUTCOMES,
  type ToolName,
  TURN_STATES,
  type TurnState,
  WS_PROTOCOL,
  WS_TOKEN_PREFIX,
  type WsMethod,
} from './names.ts'
export type { PolicyInput } from './policy-schema.ts'
export type * from './checkpoint-api.ts'
export type * from './runner-api.ts'
export { marked, reveal } from './reveal.ts'
export type { SseFrame } from './sse-frame.ts'
export { encodeSse, SseDecoder } from './sse.ts'
