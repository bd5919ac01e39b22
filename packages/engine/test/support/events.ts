/** Typed events for tests: what a test leaves out of the envelope is filled in. */
import assert from 'node:assert/strict'
import { Fault, type FaultCategory } from '@breakfall/faults'
import type { EventDraft, EventDraftOf, EventType, SessionEvent, SessionEventOf } from '@breakfall/wire'

type Fillable<E> = E extends EventDraft ? Omit<E, 'turnId'> & { readonly turnId?: string } : never
export type TestDraft = Fillable<EventDraft>
export type TestDraftOf<T extends EventType> = Fillable<EventDraftOf<T>>

/** One event a millisecond. */
export function eventsOf(drafts: readonly TestDraft[], from = Date.parse('2026-11-15T12:00:00.000Z')): SessionEvent[] {
  return drafts.map((draft, index) => {
    const at = new Date(from + index).toISOString()
    const envelope = { seq: index + 1, sessionId: 's', turnId: 't1', at }
    return { ...envelope, ...draft }
  })
}

export function turnError(category: FaultCategory, turnId?: string): TestDraftOf<'turn-error'> {
  const { at: _at, turnId: _turnId, ...fault } = new Fault(category).report
  return { type: 'turn-error', ...fault, ...(turnId === undefined ? {} : { turnId }) }
}

/** The last event, which must be of that type. */
export function lastOf<T extends EventType>(events: readonly SessionEvent[], type: T): SessionEventOf<T> {
  const last = events.at(-1)
  assert.equal(last?.type, type)
  const found = ofType(events, type).at(-1)
  assert.ok(found !== undefined)
  return found
}

export function ofType<T extends EventType>(events: readonly SessionEvent[], type: T): SessionEventOf<T>[] {
  return events.filter((event): event is SessionEventOf<T> => event.type === type)
}
