/** The probabilities of the tokens of a text, where a part of that text is left out. Pure. */
import { objectsIn, stringOr } from '../lib/json.ts'

/** Those of the last tokens, if they are exactly this text; undefined if the text begins inside a token, or there are none. */
export function logprobsOf(tokens: unknown, text: unknown): readonly object[] | undefined {
  const list = objectsIn(tokens)
  if (typeof text !== 'string' || text === '' || list.length === 0) return undefined
  let chars = 0
  let from = list.length
  while (chars < text.length && from > 0) chars += stringOr(list[--from]?.['token']).length
  const last = list.slice(from)
  return last.map(({ token }) => stringOr(token)).join('') === text ? last : undefined
}
