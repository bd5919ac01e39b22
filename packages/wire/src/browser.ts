/** The part of the wire that needs no zod: fixed names, cursors, SSE, and the types of everything else. */
export { formatCursor, parseCursor, resumeFrom } from './cursor.ts'
export type * from './daemon-api.ts'
export type * from './events.ts'
export type { WireFault } from './fault-schema.ts'
export * from './names.ts'
export type { PolicyInput } from './policy-schema.ts'
export type * from './runner-api.ts'
export { encodeSse, encodeSseComment, SseDecoder, type SseFrame } from './sse.ts'
