/** Every session as the daemon reports it, live. After a reconnect the snapshot is the truth, so there is no cursor to keep. */
import { batch, signal } from '@preact/signals'
import type { Session } from '@breakfall/wire'
import { setServerTime } from './clock.ts'
import {
  type Counts,
  countsOf,
  isJson,
  isSession,
  isText,
  type Json,
  jsonOf,
  listOf,
  type System,
  systemOf,
  textOf,
} from '../fold/shapes.ts'
import type { Link } from './socket.ts'

export type Fleet = {
  readonly isLoaded: boolean
  readonly bootId: string
  readonly sessions: ReadonlyMap<string, Session>
  readonly counts: Counts
}

export const fleet = signal<Fleet>({ isLoaded: false, bootId: '', sessions: new Map(), counts: {} })
export const system = signal<System | null>(null)
export const gateway = signal<Json | null>(null)
/** Grows with every session that was deleted, so open pages notice theirs. */
export const deleted = signal<ReadonlySet<string>>(new Set())
/** When the daemon started, and how many turns it continues. `fleet`: its name, if other daemons share its store. */
export type Restarted = { readonly at: string; readonly turns: number; readonly fleet: string | null }

/** Set when the daemon that answers is not the one before. */
export const restarted = signal<Restarted | null>(null)

export async function watchFleet(link: Link): Promise<void> {
  const snapshot = await link.request('watch')
  link.hasBeat = true
  const sessions = listOf(snapshot['sessions']).filter(isSession)
  const bootId = isText(snapshot['bootId']) ? snapshot['bootId'] : ''
  const before = fleet.peek()
  batch(() => {
    if (isText(snapshot['at'])) setServerTime(snapshot['at'])
    system.value = systemOf(snapshot['system']) ?? system.peek()
    fleet.value = {
      isLoaded: true,
      bootId,
      sessions: new Map(sessions.map((session) => [session.id, session])),
      counts: countsOf(snapshot['counts']),
    }
  })
  if (!before.isLoaded || before.bootId === bootId) return
  const turns = sessions.filter(({ state }) => state !== 'idle').length
  restarted.value = { at: system.peek()?.startedAt ?? '', turns, fleet: nameInFleet(bootId) }
}

/** One `{"watch": …}` frame. */
export function takeWatchFrame(frame: Json): void {
  batch(() => {
    if (isText(frame['at'])) setServerTime(frame['at'])
    const { session, counts } = frame
    if (isSession(session)) {
      const sessions = new Map(fleet.peek().sessions)
      sessions.set(session.id, session)
      fleet.value = { ...fleet.peek(), sessions }
    }
    if (isJson(counts)) fleet.value = { ...fleet.peek(), counts: countsOf(counts) }
    if (isText(frame['deleted'])) forget(frame['deleted'])
    if (isJson(frame['system'])) system.value = systemOf(frame['system'])
    if (isJson(frame['gateway'])) gateway.value = frame['gateway']
  })
}

// ---- details ----

function nameInFleet(bootId: string): string | null {
  const all = listOf(system.peek()?.raw['daemons']).map(jsonOf)
  if (all.length === 0) return null
  return textOf(all.find((daemon) => daemon['bootId'] === bootId)?.['name'], 'another daemon')
}

function forget(id: string): void {
  const sessions = new Map(fleet.peek().sessions)
  sessions.delete(id)
  fleet.value = { ...fleet.peek(), sessions }
  deleted.value = new Set([...deleted.peek(), id])
}
