/** Typed client of the daemon's API, for Node and browsers. No zod: events arrive as the daemon wrote them. */
export type { Session, SessionEvent, Turn } from '@breakfall/wire'
