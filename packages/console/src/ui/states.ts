/** States as people see them, in one place: the list, the header and the tab title all ask here. */
import type { Session, TurnSummary } from '@breakfall/wire'
import { isCutOff } from '@breakfall/wire/browser'
import { needsPerson } from '@breakfall/wire/turn'
import type { TurnView } from '../fold/view.ts'

/** Order is the order of the list: what needs a person comes first. */
export const STATES = {
  needs: { glyph: '▲', word: 'needs you', tone: 'failed' },
  unknown: { glyph: '?', word: 'outcome unknown', tone: 'unknown' },
  quarantined: { glyph: '⚠', word: 'journal damaged', tone: 'failed' },
  abandoned: { glyph: '◌', word: 'not running', tone: 'cancelled' },
  parked: { glyph: '◔', word: 'parked', tone: 'parked' },
  retrying: { glyph: '↻', word: 'retrying', tone: 'retrying' },
  queued: { glyph: '⋯', word: 'queued', tone: 'cancelled' },
  running: { glyph: '●', word: 'running', tone: 'running' },
  finished: { glyph: '✓', word: 'finished', tone: 'finished' },
  'cut-off': { glyph: '◐', word: 'cut off at the token limit', tone: 'retrying' },
  failed: { glyph: '✗', word: 'failed', tone: 'failed' },
  cancelled: { glyph: '⊘', word: 'cancelled', tone: 'cancelled' },
  idle: { glyph: '·', word: 'no turn yet', tone: 'cancelled' },
} as const
export type StateName = keyof typeof STATES

export const SECTIONS = [
  { key: 'needs', title: 'Needs you', states: ['needs', 'unknown', 'quarantined', 'abandoned'] },
  { key: 'waiting', title: 'Waiting', states: ['parked', 'retrying', 'queued'] },
  { key: 'running', title: 'Running', states: ['running'] },
  { key: 'ended', title: 'Ended', states: ['finished', 'cut-off', 'failed', 'cancelled', 'idle'] },
] as const satisfies readonly { key: string; title: string; states: readonly StateName[] }[]
export type SectionKey = (typeof SECTIONS)[number]['key']

/** The counters of the fleet, each the filter that finds exactly what it counts. */
export const FILTERS = [
  { filter: 'needs', word: 'Needs you', glyph: '▲' },
  { filter: 'parked,retrying,queued', word: 'Waiting', glyph: '◔' },
  { filter: 'running', word: 'Running', glyph: '●' },
  { filter: 'finished', word: 'Finished', glyph: '✓' },
  { filter: 'failed', word: 'Failed', glyph: '✗' },
  { filter: 'cancelled', word: 'Cancelled', glyph: '⊘' },
] as const

export function stateOf(session: Session): StateName {
  if (session.quarantined != null) return 'quarantined'
  const turn = session.turn ?? null
  if (session.live === false) return 'abandoned'
  if (turn === null) return session.state === 'idle' ? 'idle' : 'running'
  if (isOver(turn.state)) return endOf(turn.state, turn.unknownOutcomes, turn)
  const { fault, state } = turn
  if (state === 'parked' && fault !== null && needsPerson({ fault })) return 'needs'
  return turn.unknownOutcomes > 0 ? 'unknown' : state
}

/** The same, from the fold of the open page and what only the session row knows. */
export function stateOfTurn(turn: TurnView, session: Session | undefined): StateName {
  if (session?.quarantined != null) return 'quarantined'
  const { state, unknownOutcomes } = turn.status
  if (turn.endedAt !== null) return endOf(state, unknownOutcomes, turn.end ?? {})
  if (session?.live === false) return 'abandoned'
  if (turn.park !== null && needsPerson(turn.park)) return 'needs'
  return unknownOutcomes > 0 ? 'unknown' : state
}

export const sectionOf = (state: StateName): SectionKey =>
  SECTIONS.find(({ states }) => states.some((one) => one === state))?.key ?? 'ended'

export const titleOf = (session: Session): string => session.title || session.turn?.prompt || 'untitled session'

// ---- details ----

const endOf = (state: TurnSummary['state'], unknownOutcomes: number, end: Parameters<typeof isCutOff>[0]): StateName =>
  unknownOutcomes > 0 ? 'unknown' : state === 'finished' && isCutOff(end) ? 'cut-off' : state

type OverState = Extract<TurnSummary['state'], 'finished' | 'failed' | 'cancelled'>
const isOver = (state: TurnSummary['state']): state is OverState =>
  state === 'finished' || state === 'failed' || state === 'cancelled'
