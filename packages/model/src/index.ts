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
  TryEvent,
  TryOptions,
  Usage,
} from './answer.ts'
export { type AttemptFailure, type Ladder, nextRung, type Rung, type RungAction } from './machine/next-rung.ts'
export { isHandover, type MachineEvent, reduceAnswer } from './machine/reduce-answer.ts'
export {
  type AnswerBudget,
  type AnswerState,
  initialAnswer,
  interruptedParts,
  nextAttempt,
  type ShownPart,
  shownText,
} from './machine/state.ts'
export { isProfileName, type Profile, PROFILE_NAMES, type ProfileName, PROFILES } from './profiles.ts'
export {
  type Hold,
  HOLDS,
  RELAY_DEFAULTS,
  type RelayEvent,
  type RelayOptions,
  type RelayOutcome,
  type RelayRequest,
  type RelaySink,
  type RelayTarget,
} from './relay.ts'
export { relayAnswer } from './relay-answer.ts'
export { type ErrorAnswer, errorAnswer, errorBody } from './relay-error.ts'
export { clientHeaders, isSameHost, upstreamHeaders } from './relay-request.ts'
export { resilientFetch, type ResilientFetchOptions } from './resilient-fetch.ts'
export { resolvePolicy } from './resolve-policy.ts'
export { streamAnswer } from './stream-answer.ts'
export { canContinue, joinUrl, placesOf, takesPrefill, type Target, targetOf, targetsOf } from './target.ts'
export { tryAnswer } from './try-answer.ts'
export { addUsage } from './usage.ts'
