/** What happens in sessions, once it is committed, for whoever counts, logs, traces or shows it. */
import type { Cost, SessionEvent, Usage } from '@breakfall/wire'
import type { Log } from '../log.ts'
import { Listeners } from '../listeners.ts'
import { TurnTraces } from '../telemetry/turn-traces.ts'

export class Observer {
  readonly log: Log
  readonly traces = new TurnTraces()
  /** The code comes to this point. Does nothing, except in tests that end the process there. */
  readonly reached: (point: string) => void
  /** Every event, with its turn's first span. */
  readonly event = new Listeners<[event: SessionEvent, traceparent: string | undefined]>()
  /** What an answer or a failed attempt used. */
  readonly used = new Listeners<[usage: Usage, cost: Cost | undefined]>()
  /** A session was created. */
  readonly created = new Listeners<[sessionId: string]>()
  /** The view of a session has changed, or the session was created or is gone. */
  readonly changed = new Listeners<[sessionId: string]>()

  constructor({
    log,
    reached = () => undefined,
  }: Pick<Observer, 'log'> & { readonly reached?: Observer['reached'] | undefined }) {
    this.log = log
    this.reached = reached
  }
}
