/**
 * Chooses what happens to a fleet, at random and repeatably. Pure: the dice come in as an argument.
 *
 * I1  At least two daemons are neither frozen nor cut off at any time: one can take over from the other.
 * I2  What is frozen or cut off comes back before the script ends.
 */
import { DAEMONS, RUNNERS } from './actions.ts'

/** A script of `count` actions, as `--script` takes it. */
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

/** More often what other daemons have to notice by themselves. */
const LETTERS = ['k', 'k', 's', 's', 'c', 'c', 't', 'r', 'm', 'm', 'p', 'h', 'h', 'n'] as const
const WAIT_MS_MIN = 100
const WAIT_MS_MORE = 900

function numberFor(letter: string, below: (limit: number) => number): number | '' {
  if ('ksct'.includes(letter)) return 1 + below(DAEMONS)
  return 'rm'.includes(letter) ? 1 + below(RUNNERS) : ''
}
