/** A streaming model client that survives, and the healer behind it. */
export type {
  AnswerEvent,
  AnswerOptions,
  AnswerRequest,
  ApiName,
  AttemptPhase,
  AttemptRecord,
  Budget,
  ChatMessage,
  FailedAction,
  Fallback,
  ToolCallMessage,
  ToolSpec,
  Usage,
} from './answer.ts'
export { isProfileName, type Profile, PROFILE_NAMES, type ProfileName, PROFILES } from './profiles.ts'
export { streamAnswer } from './stream-answer.ts'
