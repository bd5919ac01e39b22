/**
 * Reads sessions and turns from the journal on disk while no daemon runs. Offers the reading calls of the client; each record says
 * `live: false`, because nothing is working on what it calls busy or running.
 */
import type { SessionPage, SessionViewer, TurnPage } from '@breakfall/client'
import { type JournalReader, selectionOf } from '@breakfall/engine/journal'
import { Fault } from '@breakfall/faults'
import {
  isKnownEvent,
  parseCursor,
  type Session,
  type SessionEvent,
  type SessionQuery,
  type Turn,
} from '@breakfall/wire'

export class OfflineViewer implements SessionViewer, Disposable {
  readonly #journal: JournalReader | undefined

  /** Undefined: there is no journal yet, so there are no sessions. */
  constructor(journal: JournalReader | undefined) {
    this.#journal = journal
  }

  sessionPage(query: SessionQuery = {}): Promise<SessionPage> {
    const page = this.#journal?.sessions(selectionOf(query)) ?? { sessions: [] }
    return Promise.resolve({ ...page, sessions: page.sessions.map(notLive) })
  }

  turns(sessionId: string, query: { readonly cursor?: string | undefined } = {}): Promise<TurnPage> {
    const turns = this.#journal?.turns(sessionId, { before: query.cursor, limit: TURNS_PAGE }) ?? []
    const next = turns.length < TURNS_PAGE ? undefined : turns.at(-1)?.id
    return Promise.resolve({ turns: turns.map(notLive), ...(next === undefined ? {} : { next }) })
  }

  session(id: string): Promise<Session> {
    return found(`session ${id}`, this.#journal?.session(id))
  }

  turn(id: string): Promise<Turn> {
    return found(`turn ${id}`, this.#journal?.turn(id))
  }

  /** The events in the journal. Then it ends, because no daemon adds to them. */
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

const TURNS_PAGE = 50

const notLive = <T extends object>(record: T): T => ({ ...record, live: false })

function found<T extends object>(what: string, record: T | undefined): Promise<T> {
  return record === undefined
    ? Promise.reject(new Fault('not_found', { facts: { name: what } }))
    : Promise.resolve(notLive(record))
}
