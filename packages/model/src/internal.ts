/** For Breakfall's own packages. Not public: it may change in any release. */
export { type AttemptFailure, type Ladder, ladderOf, nextRung, type Rung, rungEvent } from './machine/next-rung.ts'
export { type MachineEvent, reduceAnswer } from './machine/reduce-answer.ts'
export {
  type AnswerState,
  initialAnswer,
  interruptedParts,
  nextAttempt,
  type ShownPart,
  shownText,
} from './machine/state.ts'
export {
  type PathPlace,
  type RelayEvent,
  type RelayOptions,
  type RelayOutcome,
  type RelaySink,
  type ReturnedHeaders,
  type RelayTarget,
} from './relay/relay.ts'
export { relayAnswer } from './relay/relay-answer.ts'
export { type ErrorAnswer, errorAnswer, repairHeaders } from './relay/relay-error.ts'
export { type JsonBody, elementsOf, receiveBody, type RequestBody } from './relay/request-body.ts'
export { JsonFields } from './lib/json-fields.ts'
export { eventStreamFrame } from './lib/event-stream.ts'
export { Conversations } from './repair/conversations.ts'
export { type RepairNote, RequestRepair } from './repair/request-repair.ts'
export { payload } from './attempt/payload.ts'
export {
  addressOf,
  clientHeaders,
  isSameOrigin,
  modelInPath,
  upstreamHeaders,
  upstreamSearch,
} from './relay/relay-request.ts'
export { MemoryBudget, type MemoryShare } from '@breakfall/wire/node'
export { resolvePolicy } from './contract/resolve-policy.ts'
export { canContinue, takesPrefill, type Target, targetsOf } from './attempt/target.ts'
export { ChatSpan } from './telemetry/chat-span.ts'
export { type Span, startSpan, traceparentIn } from './telemetry/spans.ts'
export { addUsage } from './attempt/usage.ts'
