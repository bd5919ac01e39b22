/** Sessions, appends and turns for tests of stores. */
import assert from 'node:assert/strict'
import { randomUUIDv7 } from 'node:crypto'
import { isFault } from '@breakfall/faults'
import type { NewSession, SessionRow } from '../../src/rows.ts'
import type { Append, Store, TurnRow } from '../../src/store/store.ts'
import { NO_USAGE } from '../../src/turn/state.ts'

/** Of every event here. */
export const TURN_ID = '01990000-0000-7000-8000-00000000000a'

export function newSession(): NewSession {
  return {
    id: randomUUIDv7(),
    journal: randomUUIDv7(),
    createdAt: '2026-11-15T12:00:00.000Z',
    data: { title: null, model: null, box: {}, tools: ['bash'], policy: {}, runnerId: null, boxMade: false },
  }
}

export async function claimed(store: Store): Promise<SessionRow> {
  const { id } = await store.createSession(newSession())
  return claimAgain(store, id)
}

export async function claimAgain(store: Store, id: string): Promise<SessionRow> {
  const row = await store.claim(id)
  assert.ok(row !== undefined && row !== 'owned')
  return row
}

export function appendOf(session: SessionRow, after: number, bodies: readonly string[]): Append {
  const events = bodies.map((body, index) => ({
    seq: after + 1 + index,
    type: 'text-delta' as const,
    turnId: TURN_ID,
    body,
  }))
  return { sessionId: session.id, epoch: session.epoch, after, events }
}

export async function refused(promise: Promise<unknown>, category: string): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(isFault(error), String(error))
    assert.equal(error.category, category)
    return true
  })
}

export function turnOf(sessionId: string): TurnRow {
  return {
    turnId: randomUUIDv7(),
    sessionId,
    view: {
      id: 'x',
      sessionId,
      state: 'running',
      prompt: 'p',
      steps: 0,
      attempts: 0,
      parked: null,
      fault: null,
      result: null,
      usage: NO_USAGE,
      startedAt: null,
      endedAt: null,
    },
    cancel: { actor: 'user', reason: 'no', at: 'now' },
  }
}

/** Whether PostgreSQL is asked to append. Appends are the only statements that have names. */
export const isAppend = (question: string): boolean => question.includes('breakfall_')
