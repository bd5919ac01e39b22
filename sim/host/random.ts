/** Seeded random numbers as named streams: a draw from one stream shifts no other, so removing a fault changes nothing else. */

export class Random {
  #state: number

  constructor(...seed: readonly (string | number)[]) {
    this.#state = hashOf(seed.join('\u0000'))
  }

  /** From 0 up to, not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }

  /** From `from` to `to`, both included. */
  whole(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1))
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  of<T>(choices: readonly T[]): T {
    return choices[this.whole(0, choices.length - 1)] as T
  }
}

/** FNV-1a over UTF-16, with a finish that moves near seeds far apart. */
export function hashOf(text: string, from = 0x811c9dc5): number {
  let hash = from
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  return (hash ^ (hash >>> 13)) | 0
}
