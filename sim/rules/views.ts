/**
 * U12  What the store shows of a session is what its journal says: rows, views and summaries are equal to a second fold of its events
 *      from the first one on. Compared after each commit, unless it only continues a stream.
 */
import type { SessionEvent } from '../../packages/wire/src/index.ts'
import { reduce } from '../../packages/engine/src/turn/reduce.ts'
import { EMPTY_FOLD, type SessionFold } from '../../packages/engine/src/turn/state.ts'
import { sessionState, turnSummary, turnView } from '../../packages/engine/src/turn/view.ts'
import type { Facts } from './facts.ts'

export class Views {
  readonly #facts: Facts
  /** The second fold of each session, and how many of its events it has. */
  readonly #folds = new Map<readonly SessionEvent[], { fold: SessionFold; count: number }>()

  constructor(facts: Facts) {
    this.#facts = facts
  }

  /** After a commit. */
  look(sessionId: string): void {
    const [before, last] = (this.#facts.events.get(sessionId) ?? []).slice(-2)
    if (last !== undefined && before?.type !== last.type) this.compare(sessionId)
  }

  compare(sessionId: string): void {
    const { journal } = this.#facts.parts.database
    const events = this.#facts.events.get(sessionId) ?? []
    const row = journal.getSession(sessionId)
    if (row === undefined) return
    const fold = this.#foldOf(events)
    const turnId = fold.turn?.id ?? fold.queue[0]?.id ?? null
    this.#equal(sessionId, 'state', row.state, sessionState(fold))
    this.#equal(sessionId, 'turn', row.turnId, turnId)
    this.#equal(sessionId, 'last seq', row.lastSeq, events.length)
    this.#equal(sessionId, 'summary', row.turn, turnSummary(fold, sessionId))
    for (const { id } of [fold.turn, fold.ended?.turn, ...fold.queue].filter((turn) => turn != null))
      this.#equal(sessionId, `view of ${id}`, journal.getTurn(id)?.view, turnView(fold, sessionId, id, null))
  }

  /** Continues the fold of the last comparison: events never change. */
  #foldOf(events: readonly SessionEvent[]): SessionFold {
    const known = this.#folds.get(events) ?? { fold: EMPTY_FOLD, count: 0 }
    for (const event of events.slice(known.count)) known.fold = reduce(known.fold, event)
    known.count = events.length
    this.#folds.set(events, known)
    return known.fold
  }

  #equal(sessionId: string, what: string, stored: unknown, folded: unknown): void {
    const [is, should] = [JSON.stringify(stored), JSON.stringify(folded)]
    if (is === should) return
    const at = should.split('').findIndex((char, index) => char !== is?.[index])
    const around = (text = ''): string => text.slice(Math.max(0, at - 60), at + 60)
    this.#facts.broken(
      'U12 the store shows what the journal says',
      `${what} of ${sessionId}: …${around(is)}…, not …${around(should)}…`,
    )
  }
}
