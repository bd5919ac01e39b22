/** Whether a fleet kept its promises, from the events that its daemons give. Pure. */
import { isTerminal, type SessionEvent } from '@breakfall/wire'

export type Checked = {
  readonly turns: number
  readonly finished: number
  readonly takeovers: number
  /** Commands that ran, and how many turns say that each of theirs ran once and in order. */
  readonly effects: number
  readonly exact: number
  readonly events: number
  readonly gaps: number
  /** Sessions whose events are not the same at every daemon. */
  readonly differing: number
}

/** For each session: its events, as each daemon gives them. */
export function check(sessions: readonly (readonly (readonly SessionEvent[])[])[]): Checked {
  const first = sessions.map((tails) => tails[0] ?? [])
  const ends = first.map((events) => events.filter(isTerminal))
  const count = (isWanted: (event: SessionEvent) => boolean): number =>
    first.reduce((sum, events) => sum + events.filter(isWanted).length, 0)
  const finished = ends.filter((end) => end.length === 1 && end[0]?.type === 'turn-end').length
  const exact = first.filter((events) => EXACT.test(lastText(events))).length
  const gaps = first.reduce((sum, events) => sum + events.filter(({ seq }, at) => seq !== at + 1).length, 0)
  const differing = sessions.filter((tails) => new Set(tails.map((tail) => JSON.stringify(tail))).size > 1).length
  return {
    turns: sessions.length,
    finished,
    takeovers: count(({ type }) => type === 'taken-over'),
    effects: count((event) => event.type === 'tool-result' && event.outcome === 'ok'),
    exact,
    events: count(() => true),
    gaps,
    differing,
  }
}

/** Every turn ended once, every command ran once and in order, and every daemon tells the same. */
export const isKept = ({ turns, finished, exact, gaps, differing }: Checked): boolean =>
  finished === turns && exact === turns && gaps === 0 && differing === 0

export const checkedLine = ({ turns, finished, takeovers, effects, exact, events, gaps, differing }: Checked): string =>
  `${finished} of ${turns} turns finished · ${takeovers} takeovers · ${effects} commands, each once and in order in ${exact} of ${turns} turns · ${events} events, ${gaps} gaps, ${differing === 0 ? 'the same at every daemon' : `${differing} sessions differ between daemons`}`

// ---- details ----

/** What the scripted model says if the checksum of every step is right. */
const EXACT = /each once and in order/

function lastText(events: readonly SessionEvent[]): string {
  const last = events.findLast((event) => event.type === 'step-start')
  const from = last === undefined ? 0 : events.indexOf(last)
  return events
    .slice(from)
    .map((event) => (event.type === 'text-delta' ? event.text : ''))
    .join('')
}
