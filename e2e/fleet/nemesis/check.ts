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
  /** Sessions whose rows in the database do not add up: hashes, numbers or epochs. */
  readonly damaged: number
  /** Starts of commands that arrived after another daemon had taken over, and how many of them the runner refused. */
  readonly late: number
  readonly refused: number
}

/** What the events do not say. */
export type Observed = Pick<Checked, 'damaged' | 'late' | 'refused'>

/** For each session: its events, as each daemon gives them. */
export function check(sessions: readonly (readonly (readonly SessionEvent[])[])[], observed: Observed): Checked {
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
    ...observed,
  }
}

/** Every turn ended once, every command ran once and in order, no late one ran, and every daemon and the database tell the same. */
export const isKept = ({ turns, finished, exact, gaps, differing, damaged, late, refused }: Checked): boolean =>
  finished === turns && exact === turns && late === refused && gaps + differing + damaged === 0

export function checkedLine(checked: Checked): string {
  const { turns, finished, takeovers, effects, exact, events, gaps, differing, damaged, late, refused } = checked
  return [
    `${finished} of ${turns} turns finished`,
    `${takeovers} takeovers`,
    `${effects} commands, each once and in order in ${exact} of ${turns} turns`,
    ...(late === 0 ? [] : [`${refused} of ${late} late commands refused`]),
    `${events} events, ${gaps} gaps, ${differing === 0 ? 'the same at every daemon' : `${differing} sessions differ between daemons`}`,
    ...(damaged === 0 ? [] : [`${damaged} sessions damaged in the database`]),
  ].join(' · ')
}

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
