/** A streaming model client that recovers broken answers, the answer machine it drives, and the relay behind gateway and `resilientFetch`. */
export type {
  AnswerEvent,
  AnswerOptions,
  AnswerRequest,
  AttemptRecord,
  Budget,
  ChatMessage,
  Fallback,
  ToolSpec,
  TryEvent,
  TryOptions,
  Usage,
} from './contract/answer.ts'
export {
  API_NAMES,
  type ApiName,
  type Hold,
  HOLDS,
  isProfileName,
  PROFILE_NAMES,
  type ProfileName,
  type RelayApiName,
  type RepairMode,
  REPAIRS,
} from './contract/names.ts'
export { resilientFetch, type ResilientFetchOptions } from './relay/resilient-fetch.ts'
export { streamAnswer } from './client/stream-answer.ts'
export { TELEMETRY } from './telemetry/names.ts'
export { tryAnswer } from './client/try-answer.ts'
