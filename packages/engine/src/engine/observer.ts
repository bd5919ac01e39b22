/** What happens in sessions, once it is committed, for whoever counts, logs, traces or shows it. */
import type { Cost, SessionEvent, Usage } from '@breakfall/wire'
import { Listeners } from '../listeners.ts'

export class Observer {
  /** Every event, with its turn's first span. */
  readonly event = new Listeners<[event: SessionEvent, traceparent: string | undefined]>()
  /** What an answer or a failed attempt used. */
  readonly used = new Listeners<[usage: Usage, cost: Cost | undefined]>()
  /** A session was created. */
  readonly created = new Listeners<[sessionId: string]>()
  /** The view of a session has changed, or the session was created or is gone. */
  readonly changed = new Listeners<[sessionId: string]>()
}
