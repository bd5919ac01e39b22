/**
 * U12  What the store shows of a session is what its journal says: rows, views and summaries are equal to a second fold of its events
 *      from the first one on. Looked at when a turn parks or ends, and now and then in between.
 */
import { isTerminal } from '../../packages/wire/src/index.ts'
import { reduce } from '../../packages/engine/src/turn/reduce.ts'
import { EMPTY_FOLD } from '../../packages/engine/src/turn/state.ts'
import { sessionState, turnSummary, turnView } from '../../packages/engine/src/turn/view.ts'
import type { Facts } from './facts.ts'

export class Views {
  readonly #facts: Facts
  #commits = 0

  constructor(facts: Facts) {
    this.#facts = facts
  }

  /** After a commit. */
  look(sessionId: string): void {
    this.#commits += 1
    const last = this.#facts.events.get(sessionId)?.at(-1)
    if (last === undefined) return
    if (last.type === 'parked' || isTerminal(last) || this.#commits % COMMITS === 0) this.compare(sessionId)
  }

  compare(sessionId: string): void {
    const { journal } = this.#facts.parts.database
    const events = this.#facts.events.get(sessionId) ?? []
    const row = journal.getSession(sessionId)
    if (row === undefined) return
    const fold = events.reduce(reduce, EMPTY_FOLD)
    const turnId = fold.turn?.id ?? fold.queue[0]?.id ?? null
    this.#equal(sessionId, 'state', row.state, sessionState(fold))
    this.#equal(sessionId, 'turn', row.turnId, turnId)
    this.#equal(sessionId, 'last seq', row.lastSeq, events.length)
    this.#equal(sessionId, 'summary', row.turn, turnSummary(fold, sessionId))
    for (const { id } of [fold.turn, fold.ended?.turn, ...fold.queue].filter((turn) => turn != null))
      this.#equal(sessionId, `view of ${id}`, journal.getTurn(id)?.view, turnView(fold, sessionId, id, null))
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

const COMMITS = 16
