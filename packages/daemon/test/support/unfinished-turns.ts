/** Journals with unfinished turns, as a daemon leaves them when it is killed or stopped. */
import { randomUUIDv7 } from 'node:crypto'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'
import { isKnownEvent, parseEvent, type PolicyInput, type SessionEvent, type Turn } from '@breakfall/wire'
import { openSqliteStore } from '@breakfall/engine'
import { claimAgain } from '../../../engine/test/conformance/store-kit.ts'
import { NO_USAGE } from '../../../engine/src/turn/state.ts'
import type { TestDraft } from '../../../engine/test/support/events.ts'

export type Left = {
  readonly prompt: string
  /** Handed over by a daemon that was stopped; otherwise its daemon was killed. */
  readonly isHandedOver?: boolean
  /** How often it was taken over before without progress. */
  readonly takeovers?: number
  readonly policy?: PolicyInput
}

export type LeftTurn = { readonly id: string; readonly turnId: string; readonly prompt: string; readonly seq: number }

export async function leaveTurns(stateDir: string, all: readonly Left[]): Promise<readonly LeftTurn[]> {
  const store = await openSqliteStore(join(stateDir, 'journal'))
  const turns: LeftTurn[] = []
  for (const { prompt, isHandedOver = false, takeovers = 0, policy = {} } of all) {
    const at = new Date().toISOString()
    const data = { title: null, model: null, box: {}, tools: [], policy, runnerId: null, boxMade: false }
    const { id } = await store.createSession({ id: randomUUIDv7(), journal: randomUUIDv7(), createdAt: at, data })
    const { epoch } = await claimAgain(store, id)
    const turnId = randomUUIDv7()
    const drafts: TestDraft[] = [
      { type: 'turn-start', prompt },
      { type: 'step-start', step: 1 },
      ...Array.from({ length: takeovers }, () => ({ type: 'taken-over', epoch }) as const),
    ]
    if (isHandedOver) drafts.push({ type: 'parked', fault: new Fault('shutting_down').report, resumeAt: null })
    const events = drafts.map(({ type, ...rest }, n) => {
      const body = JSON.stringify({ seq: n + 1, type, sessionId: id, turnId, at, ...rest })
      return { seq: n + 1, type, turnId, body }
    })
    const state = isHandedOver ? 'parked' : 'busy'
    const view: Turn = {
      id: turnId,
      sessionId: id,
      state: 'running',
      prompt,
      steps: 1,
      attempts: 1,
      parked: null,
      fault: null,
      result: null,
      usage: NO_USAGE,
      startedAt: at,
      endedAt: null,
    }
    const turn = { turnId, sessionId: id, view, cancel: null }
    await store.append({ sessionId: id, epoch, after: 0, events, set: { state, turnId }, turns: [turn] })
    turns.push({ id, turnId, prompt, seq: events.length })
  }
  await store.close()
  return turns
}

/** The events in their journals. Only while no daemon has them. */
export async function journalsOf(stateDir: string, turns: readonly LeftTurn[]): Promise<readonly SessionEvent[][]> {
  const store = await openSqliteStore(join(stateDir, 'journal'))
  const all: SessionEvent[][] = []
  for (const { id } of turns) {
    const stored = await store.read(id, 0, 1_000)
    all.push(stored.map(({ body }) => parseEvent(JSON.parse(body))).filter(isKnownEvent))
  }
  await store.close()
  return all
}
