/** For Breakfall's own packages: the fields that schemas are made of, and shapes that only they exchange. May change in any release. */
export { addressIn } from './address.ts'
export { type FaultGroup, faultOccurrencesSchema, faultsSeenSchema, seenQuerySchema } from './console-api.ts'
export {
  body,
  environment,
  flag,
  httpUrl,
  id,
  ID_PATTERN,
  integer,
  label,
  oneOf,
  providerName,
  record,
  text,
  time,
} from './fields.ts'
export { type ModelFacts, modelFactsOf, modelFactsShape } from './model-facts.ts'
export { didYouMean, nearest } from './nearest.ts'
export { invalidRequest, parseRequest } from './parse.ts'
export { BACKGROUND_READY_MS, type BoxProcess, execBackgroundSchema, processListSchema } from './runner-api.ts'
export {
  type Operation,
  type OperationAt,
  type OperationBody,
  type OperationCalls,
  type OperationId,
  type OperationParams,
  OPERATIONS,
} from './operations.ts'
