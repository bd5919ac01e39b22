/** Schemas and types of everything that crosses a boundary. `./browser` has what runs without zod, `./node` what needs Node. */
export { type Cursor, type CursorVerdict, formatCursor, parseCursor, resumeFrom } from './cursor.ts'
export * from './daemon-api.ts'
export * from './events.ts'
export { diagnosticSchema, faultReportSchema, problemSchema, type WireFault } from './fault-schema.ts'
export { body, environment, flag, id, ID_PATTERN, integer, oneOf, record, text, time } from './fields.ts'
export * from './names.ts'
export { didYouMean, nearest } from './nearest.ts'
export { type OpenApiRoute, openApiDocument } from './openapi.ts'
export { invalidRequest, parseRequest } from './parse.ts'
export { POLICY_KEYS, type PolicyInput, policySchema } from './policy-schema.ts'
export * from './runner-api.ts'
export {
  encodeSse,
  encodeSseComment,
  SSE_BUFFER_CHARS_MAX,
  SseDecoder,
  type SseDecoderOptions,
  type SseFrame,
} from './sse.ts'
