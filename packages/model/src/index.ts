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
} from './answer.ts'
export { type AttemptFailure, type Ladder, nextRung, type Rung, rungEvent } from './machine/next-rung.ts'
export { isHandover, type MachineEvent, reduceAnswer } from './machine/reduce-answer.ts'
export {
  type AnswerState,
  initialAnswer,
  interruptedParts,
  nextAttempt,
  type ShownPart,
  shownText,
} from './machine/state.ts'
export {
  API_NAMES,
  type ApiName,
  type Hold,
  HOLDS,
  isProfileName,
  PROFILE_NAMES,
  type ProfileName,
  type RelayApiName,
} from './names.ts'
export {
  type RelayEvent,
  type RelayOptions,
  type RelayOutcome,
  type RelaySink,
  type RelayTarget,
} from './relay/relay.ts'
export { relayAnswer } from './relay/relay-answer.ts'
export { type ErrorAnswer, errorAnswer } from './relay/relay-error.ts'
export { type JsonBody, jsonBody } from './relay/request-body.ts'
export { clientHeaders, isSameHost, upstreamHeaders, withoutVersion } from './relay/relay-request.ts'
export { resilientFetch, type ResilientFetchOptions } from './relay/resilient-fetch.ts'
export { wasEmpty } from './proof.ts'
export { resolvePolicy } from './resolve-policy.ts'
export { streamAnswer } from './stream-answer.ts'
export { canContinue, takesPrefill, type Target, targetsOf } from './target.ts'
export { ChatSpan } from './telemetry/chat-span.ts'
export { TELEMETRY } from './telemetry/names.ts'
export { type Span, startSpan, traceparentIn } from './telemetry/spans.ts'
export { tryAnswer } from './try-answer.ts'
export { addUsage } from './usage.ts'
