/** What a person or a script does to a fleet, as words: `k1 3s m2 p`. Pure. */
import { Fault } from '@breakfall/faults'

export type FleetAction =
  | { readonly do: 'kill' | 'stop' | 'drain' | 'cut'; readonly which: number }
  | { readonly do: 'kill-runner' | 'move'; readonly which: number }
  | { readonly do: 'restart-database' }
  | { readonly do: 'hold-back' }
  | { readonly do: 'new-turn' }
  | { readonly do: 'open-console' }
  | { readonly do: 'quit' }
  | { readonly do: 'wait'; readonly ms: number }

export const DAEMONS = 3
export const RUNNERS = 2

/** For the end of the table. */
export const KEYS_HELP = [
  'daemon 1:  k1 kill · s1 stop or continue · t1 drain · c1 cut from PostgreSQL, or connect',
  'runner 1:  r1 kill · m1 move      p restart PostgreSQL · h hold a command back until another daemon took over',
  'n new turn · o console · q quit and check',
] as const

export function parseScript(text: string): readonly FleetAction[] {
  return text
    .trim()
    .split(/\s+/)
    .filter((word) => word !== '')
    .map((word) => {
      const action = actionOf(word)
      if (action !== undefined) return action
      throw new Fault('invalid_request', {
        error: `"${word}" is not an action. Nothing was started. Write words such as k1 (kill daemon 1), s2, t3, c1, r1, m2, p, h, n, o, q, 500ms or 3s.`,
      })
    })
}

/** Undefined: not an action, or not yet: `k` still needs its number. */
export function actionOf(word: string): FleetAction | undefined {
  const [, letter = '', digit] = /^([a-z])(\d)?$/.exec(word) ?? []
  const which = digit === undefined ? undefined : Number(digit)
  const onDaemon = ON_DAEMON[letter]
  const onRunner = ON_RUNNER[letter]
  if (onDaemon !== undefined && isWithin(which, DAEMONS)) return { do: onDaemon, which }
  if (onRunner !== undefined && isWithin(which, RUNNERS)) return { do: onRunner, which }
  const alone = ALONE[letter]
  if (alone !== undefined && which === undefined) return { do: alone }
  const [, amount, unit] = /^(\d+)(ms|s)$/.exec(word) ?? []
  return amount === undefined ? undefined : { do: 'wait', ms: Number(amount) * (unit === 's' ? 1_000 : 1) }
}

/** Keys that wait for a number. */
export const needsNumber = (key: string): boolean => key in ON_DAEMON || key in ON_RUNNER

export const nameOf = (action: FleetAction): string => {
  if (action.do === 'wait') return `wait ${action.ms} ms`
  if (!('which' in action)) return action.do
  return action.do === 'kill-runner' || action.do === 'move'
    ? `${action.do === 'move' ? 'move' : 'kill'} runner ${action.which}`
    : `${action.do} daemon ${action.which}`
}

// ---- details ----

const ON_DAEMON: Readonly<Record<string, 'kill' | 'stop' | 'drain' | 'cut'>> = {
  k: 'kill',
  s: 'stop',
  t: 'drain',
  c: 'cut',
}
const ON_RUNNER: Readonly<Record<string, 'kill-runner' | 'move'>> = { r: 'kill-runner', m: 'move' }
const ALONE: Readonly<Record<string, 'restart-database' | 'hold-back' | 'new-turn' | 'open-console' | 'quit'>> = {
  p: 'restart-database',
  h: 'hold-back',
  n: 'new-turn',
  o: 'open-console',
  q: 'quit',
}

const isWithin = (which: number | undefined, count: number): which is number =>
  which !== undefined && which >= 1 && which <= count
