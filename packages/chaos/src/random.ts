/** Randomness as a pure function of its inputs: the same inputs give the same number, on every machine. */
import { createHash } from 'node:crypto'

/** From 0 (included) to 1 (excluded). */
export function randomOf(...inputs: readonly (string | number)[]): number {
  const digest = createHash('sha256').update(inputs.join('\0')).digest()
  return digest.readUIntBE(0, 6) / 2 ** 48
}

/** A sequence of such numbers: the n-th call returns the n-th number. */
export function randomSequence(...inputs: readonly (string | number)[]): () => number {
  let calls = 0
  return () => randomOf(...inputs, (calls += 1))
}

/** A short name for some content: the same content has the same name. */
export function digestOf(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part).update('\0')
  return hash.digest('hex').slice(0, 16)
}
