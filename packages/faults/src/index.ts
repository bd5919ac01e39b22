/** The fault table, the classifier, and `decide`, which says what happens after a fault. No dependencies; runs in a browser. */

// What failed
export { classify, type ClassifyContext, type ResponseEvidence } from './classify.ts'
export { Fault, faultFrom } from './fault.ts'
export { isFault, isFaultReport } from './reported-fault.ts'
export {
  type Diagnostic,
  type FaultInit,
  type FaultReport,
  type FieldError,
  SIDE_EFFECTS,
  type SideEffects,
} from './report.ts'
export {
  BOUNDARIES,
  type Boundary,
  FAULT_CATEGORIES,
  FAULT_CLASSES,
  type FaultCategory,
  type FaultClass,
  FAULTS,
  isFaultCategory,
  NEXT_STEPS,
} from './categories.ts'
export { EXIT_CODE_BY_CATEGORY, EXIT_CODES, exitCodeOf } from './exit-codes.ts'
export { PROBLEM_CONTENT_TYPE, toProblem } from './problem.ts'
export { statusCategory, type StatusVerdict } from './status.ts'

// What to do about it
export { decide } from './decide.ts'
export { type Decision, type Reason, REASONS } from './decision.ts'
export type {
  AnswerSituation,
  CallSituation,
  EngineSituation,
  ProcessSituation,
  RunnerSituation,
  Situation,
} from './situation.ts'
export { fullPolicy, LIMITS, type Policy, POLICY_DEFAULTS, type RetryPolicy } from './policy.ts'
export type { Retry } from './retry-loop.ts'
export { type RetryOptions, retryOutcome, retrying } from './retrying.ts'
export { sleep } from './sleep.ts'

// What people read
export { withDecision } from './conclusion.ts'
export { type FaultMessage, joinMessage } from './message.ts'
export { type Facts, messageFor } from './messages.ts'
export { describeCause } from './cause.ts'
export { redact, redactBounded, redactStart } from './redact.ts'
