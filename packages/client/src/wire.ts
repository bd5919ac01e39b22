/** The only run-time imports from `wire`. Keep them free of zod: `test/browser-entry.test.ts` walks the import graph. */
export { parseCursor, SseDecoder, type SseFrame } from '@breakfall/wire/browser'
