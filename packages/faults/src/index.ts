/** The fault table, the classifier, and the one place that decides about trying again. No dependency; runs in a browser. */
export { causeChain, describeCause, RAW_CHARS_MAX } from './cause.ts'
export { classify, type ClassifyContext, type ResponseEvidence } from './classify.ts'
export { backoffMs, probeDelayMs } from './backoff.ts'
export { decide, type Decision, type Reason, REASONS } from './decide.ts'
export { ELSEWHERE } from './elsewhere.ts'
export type {
  AnswerSituation,
  CallSituation,
  EngineSituation,
  Parking,
  ProcessSituation,
  RunnerSituation,
  Situation,
} from './situation.ts'
export { EXIT_CODE_BY_CATEGORY, EXIT_CODES, type ExitCode, exitCodeOf } from './exit-codes.ts'
export { Fault, faultFrom, isFault, isFaultReport } from './fault.ts'
export { withDecision } from './conclusion.ts'
export { duration } from './duration.ts'
export { type FaultMessage, joinMessage } from './message.ts'
export { type Facts, messageFor } from './messages.ts'
export { LIMITS, type Policy, POLICY_DEFAULTS, type RetryPolicy } from './policy.ts'
export { fromProblem, type Problem, PROBLEM_CONTENT_TYPE, toProblem } from './problem.ts'
export { cutEnd, cutStart } from './cut.ts'
export { redact, redactBounded, redactStart } from './redact.ts'
export {
  type Diagnostic,
  type FaultIds,
  type FaultInit,
  type FaultReport,
  type FieldError,
  SIDE_EFFECTS,
  type SideEffects,
} from './report.ts'
export { type Retry, type RetryOptions, type RetryOutcome, retryOutcome, retrying } from './retrying.ts'
export { sleep, TIMER_MS_MAX } from './sleep.ts'
export { type HeaderSource, headerOf, retryAfterMs } from './retry-after.ts'
export { bodyMessage, OVERFLOW_TEXTS, PROVIDER_CODES, providerCodeCategory, statusCategory } from './status.ts'
export {
  BOUNDARIES,
  type Boundary,
  FAULT_CATEGORIES,
  FAULT_CLASSES,
  type FaultCategory,
  type FaultClass,
  type FaultRow,
  FAULTS,
  isFaultCategory,
  NEXT_STEPS,
  type NextStep,
} from './table.ts'
export { TEXT_RULES, TRANSPORT_KINDS, type TransportKind } from './transport.ts'
