/**
 * What happens to a fleet, as words: `k1 3s m2 p`; chosen at random and repeatably. Pure: the dice come in as an argument.
 *
 * I1  At least two daemons are neither frozen nor cut off at any time: one can take over from the other.
 * I2  What is frozen or cut off comes back before the script ends.
 */

export type FleetAction =
  | { readonly do: 'kill' | 'stop' | 'drain' | 'cut'; readonly which: number }
  | { readonly do: 'kill-runner' | 'move'; readonly which: number }
  | { readonly do: 'restart-database' | 'hold-back' | 'new-turn' }
  | { readonly do: 'wait'; readonly ms: number }

export const DAEMONS = 3
export const RUNNERS = 2

export const WORDS_HELP = `  k1 kill daemon 1 · s1 stop or continue it · t1 drain it · c1 cut it from PostgreSQL, or connect it
  r1 kill runner 1 · m1 move it · p restart PostgreSQL · n new turn · 500ms or 3s wait
  h hold a command back until another daemon has taken over`

export function parseScript(text: string): readonly FleetAction[] {
  return text
    .trim()
    .split(/\s+/)
    .filter((word) => word !== '')
    .map((word) => {
      const action = actionOf(word)
      if (action === undefined)
        throw new Error(`"${word}" is not an action. Nothing was started. Words:\n${WORDS_HELP}`)
      return action
    })
}

/** A script of `count` actions. */
export function nemesis(dice: () => number, count: number): string {
  const words: string[] = []
  let away: string | undefined // I1: the word that ends it
  const below = (limit: number): number => Math.floor(dice() * limit)
  for (let at = 0; at < count; at += 1) {
    const letter = LETTERS[below(LETTERS.length)] ?? 'n'
    const isTwoSided = letter === 's' || letter === 'c'
    if (isTwoSided && away !== undefined) {
      words.push(away)
      away = undefined
    } else {
      const word = `${letter}${numberFor(letter, below)}`
      words.push(word)
      if (isTwoSided) away = word
    }
    words.push(`${WAIT_MS_MIN + below(WAIT_MS_MORE)}ms`)
  }
  return [...words, ...(away === undefined ? [] : [away])].join(' ') // I2
}

// ---- details ----

function actionOf(word: string): FleetAction | undefined {
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

const ON_DAEMON: Readonly<Record<string, 'kill' | 'stop' | 'drain' | 'cut'>> = {
  k: 'kill',
  s: 'stop',
  t: 'drain',
  c: 'cut',
}
const ON_RUNNER: Readonly<Record<string, 'kill-runner' | 'move'>> = { r: 'kill-runner', m: 'move' }
const ALONE: Readonly<Record<string, 'restart-database' | 'hold-back' | 'new-turn'>> = {
  p: 'restart-database',
  h: 'hold-back',
  n: 'new-turn',
}

const isWithin = (which: number | undefined, count: number): which is number =>
  which !== undefined && which >= 1 && which <= count

/** More often what other daemons have to notice by themselves. */
const LETTERS = ['k', 'k', 's', 's', 'c', 'c', 't', 'r', 'm', 'm', 'p', 'h', 'h', 'n'] as const
const WAIT_MS_MIN = 100
const WAIT_MS_MORE = 900

function numberFor(letter: string, below: (limit: number) => number): number | '' {
  if ('ksct'.includes(letter)) return 1 + below(DAEMONS)
  return 'rm'.includes(letter) ? 1 + below(RUNNERS) : ''
}
