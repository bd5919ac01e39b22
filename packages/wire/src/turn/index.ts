/** What a turn's events add up to, for every reader of a journal. Pure, and free of zod. May change in any release. */
export {
  countFaults,
  type FaultCount,
  isFailedPark,
  isFault,
  isHandover,
  isProgress,
  isQuestion,
  NO_FAULTS,
} from './faults.ts'
