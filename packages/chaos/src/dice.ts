/** Dice that are a pure function of what is thrown for: the same words give the same number, on every machine. */
import { createHash } from 'node:crypto'

/** From 0 (included) to 1 (not included). */
export function throwDice(...words: readonly (string | number)[]): number {
  const digest = createHash('sha256').update(words.join('\0')).digest()
  return digest.readUIntBE(0, 6) / 2 ** 48
}

/** A row of numbers for one thing that needs many: the n-th call gives the n-th number of that row. */
export function diceFor(...words: readonly (string | number)[]): () => number {
  let throws = 0
  return () => throwDice(...words, (throws += 1))
}

/** A short name for some content: the same content has the same name. */
export function digestOf(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part).update('\0')
  return hash.digest('hex').slice(0, 16)
}
