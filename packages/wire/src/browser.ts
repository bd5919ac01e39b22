/** The part of the wire that needs no zod: fixed words, cursors, SSE, and the types of everything else. */
export { type Cursor, type CursorVerdict, formatCursor, parseCursor, resumeFrom } from './cursor.ts'
export type * from './daemon-api.ts'
export type * from './events.ts'
export type { WireFault } from './fault-schema.ts'
export * from './names.ts'
export type { PolicyInput } from './policy-schema.ts'
export type * from './runner-api.ts'
export {
  encodeSse,
  encodeSseComment,
  SSE_BUFFER_CHARS_MAX,
  SseDecoder,
  type SseDecoderOptions,
  type SseFrame,
} from './sse.ts'
