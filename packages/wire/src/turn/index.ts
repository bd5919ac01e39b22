/** What a turn's events add up to, for every reader of a journal. Pure, and free of zod. May change in any release. */
export { countFaults, type FaultCount, isProgress, NO_FAULTS } from './faults.ts'
export { fieldsOf, type QuestionField, valueFrom } from './question-fields.ts'
export { FIRST_STATUS, type RetryWait, retryAt, statusAfter, type TurnStatus } from './status.ts'
export {
  continuesByItself,
  countsAsFault,
  isDaemonShutdown,
  needsPerson,
  type Park,
  type ParkedFault,
  parkIn,
  questionOf,
  resetsByItself,
  type Wait,
  waitOf,
  type WaitsFor,
  waitsFor,
} from './wait.ts'
export { FILES_MAX, firstRecord, recordAfter, type TurnRecord } from './record.ts'
