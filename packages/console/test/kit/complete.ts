/** Fills in the fields that a test does not care about: a staged answer then has every field of a real one. */
import type { Event } from './journal.ts'

type Json = Readonly<Record<string, unknown>>

const iso = (ms = Date.now()): string => new Date(ms).toISOString()

export const completeSession = (session: Json & { readonly id: string }, events: readonly Event[] = []): Json => ({
  title: null,
  state: 'idle',
  turnId: null,
  model: 'm',
  boxId: session.id,
  createdAt: iso(),
  lastSeq: events.at(-1)?.seq ?? 0,
  ...session,
})

export const completeSystem = (system: Json): Json => ({
  version: '0.1.0',
  startedAt: iso(),
  now: iso(),
  tokenFile: '/tmp/daemon.token',
  stateDir: '/tmp/state',
  journal: { bytes: 0, freeBytes: null, isFull: false, quarantined: 0 },
  turns: { driven: 0, parked: 0 },
  runner: { state: 'none', url: null, runnerId: null, since: iso(), isolation: null },
  model: { name: 'm', baseUrl: 'http://127.0.0.1:8080/v1', profile: null, fallbacks: [], serve: null },
  workspaces: [],
  gateway: false,
  chaos: false,
  ...system,
})

const UNKNOWN = { value: null, quality: 'unknown' }

/** A session's turns as the daemon lists them, newest first. */
export function turnsIn(sessionId: string, events: readonly Event[]): readonly Json[] {
  const turns = new Map<string, Json>()
  for (const event of events) {
    const id = String(event['turnId'])
    const state = event.type === 'turn-end' ? 'finished' : event.type === 'turn-error' ? 'failed' : 'running'
    const before = turns.get(id)
    turns.set(id, {
      id,
      sessionId,
      prompt: before?.['prompt'] ?? event['prompt'] ?? '',
      steps: 0,
      attempts: 0,
      parked: null,
      fault: null,
      result: null,
      usage: { inputTokens: UNKNOWN, outputTokens: UNKNOWN },
      startedAt: before?.['startedAt'] ?? event.at,
      endedAt: state === 'running' ? null : event.at,
      firstSeq: before?.['firstSeq'] ?? event.seq,
      lastSeq: event.seq,
      state,
    })
  }
  return [...turns.values()].toReversed()
}
