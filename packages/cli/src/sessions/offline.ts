/**
 * Sessions and turns as the journal on disk has them, for looking at them while no daemon runs. The same calls as over the
 * API; each record says `live: false`, since nobody works on what it calls busy or running.
 */
import { Fault } from '@breakfall/faults'
import type { JournalReader } from '@breakfall/daemon'
import { isKnownEvent, parseCursor, type Session, type SessionEvent, type Turn } from '@breakfall/wire'
import type { DaemonClient } from '../daemon/client.ts'

/** What can be looked at: with a daemon or without. */
export type Viewer = Pick<DaemonClient, 'sessions' | 'session' | 'turn' | 'events'>

export class JournalClient implements Viewer, Disposable {
  readonly #journal: JournalReader | undefined

  /** Undefined: there is no journal yet, so nothing is in it. */
  constructor(journal: JournalReader | undefined) {
    this.#journal = journal
  }

  sessions(): Promise<readonly Session[]> {
    return Promise.resolve([...(this.#journal?.sessions() ?? [])].map(notLive))
  }

  session(id: string): Promise<Session> {
    return found('session', this.#journal?.session(id))
  }

  turn(id: string): Promise<Turn> {
    return found('turn', this.#journal?.turn(id))
  }

  /** What there is; then it ends, since nobody adds to it. */
  async *events(
    sessionId: string,
    options: { readonly after?: string | number | undefined } = {},
  ): AsyncGenerator<SessionEvent> {
    const seq = parseCursor(options.after)?.seq ?? 0
    for (const event of this.#journal?.events(sessionId, seq) ?? [])
      if (isKnownEvent(event)) yield await Promise.resolve(event)
  }

  [Symbol.dispose](): void {
    this.#journal?.[Symbol.dispose]()
  }
}

// ---- details ----

const notLive = <T extends object>(record: T): T => ({ ...record, live: false })

function found<T extends object>(what: string, record: T | undefined): Promise<T> {
  return record === undefined
    ? Promise.reject(new Fault('not_found', { facts: { name: `such ${what}` } }))
    : Promise.resolve(notLive(record))
}
