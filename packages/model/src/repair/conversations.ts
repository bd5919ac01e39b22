/**
 * Which conversations were repaired, and how: their agents send the broken history with every request. The same edits are made again before
 * the request goes out, so the server refuses once and not every time, and thoughts that it made after the repair still fit.
 *
 * I1  A request is changed only if it starts with exactly the bytes that were repaired and taken.
 * I2  It is bounded in number, size and time, whoever fills it.
 */
import { createHash, type Hash } from 'node:crypto'
import type { HistoryCause } from '@breakfall/faults/internal'
import type { Edit } from './json-spans.ts'

export type KnownRepair = {
  readonly causes: readonly HistoryCause[]
  readonly place: string
  /** In places of the client's list, from behind its bracket. */
  readonly edits: readonly Edit[]
}

type Entry = KnownRepair & {
  readonly key: string
  /** Of the bytes from behind the list's bracket to the end of the last edit. */
  readonly length: number
  readonly digest: string
  readonly usedAt: number
}

export const CONVERSATIONS_LIMITS = {
  conversationsMax: 256,
  editBytesMax: 256 * 1024, // per conversation; most need a few hundred
  idleMs: 3_600_000, // longer than a provider keeps its prompt cache
} as const

export class Conversations {
  /** Oldest first. */
  readonly #entries = new Set<Entry>()
  readonly #now: () => number

  constructor(now: () => number) {
    this.#now = now
  }

  get size(): number {
    return this.#entries.size
  }

  /** Whether a list of this length is worth looking at. Costs nothing while nothing was repaired. */
  mayKnow(key: string): boolean {
    this.#forgetIdle()
    for (const entry of this.#entries) if (entry.key === key) return true
    return false
  }

  /** The longest repaired beginning of this list, which is the newest from now on. `list`: its bytes, from behind the bracket. */
  find(key: string, list: readonly Buffer[]): Entry | undefined {
    this.#forgetIdle()
    const known = [...this.#entries].filter((entry) => entry.key === key)
    const digests = digestsAt(list, new Set(known.map(({ length }) => length)))
    const [found] = known
      .filter(({ length, digest }) => digests.get(length) === digest) // I1
      .toSorted((one, other) => other.length - one.length)
    if (found === undefined) return undefined
    const used = { ...found, usedAt: this.#now() }
    this.#entries.delete(found)
    this.#entries.add(used)
    return used
  }

  /** It is kept, and from now on it is the newest. False if it is too long for that. */
  keep(key: string, list: readonly Buffer[], { causes, place, edits }: KnownRepair): boolean {
    const length = edits.reduce((most, { to }) => Math.max(most, to), 0)
    const bytes = edits.reduce((sum, { text }) => sum + text.length, 0)
    const digest = digestsAt(list, new Set([length])).get(length)
    if (edits.length === 0 || digest === undefined || bytes > CONVERSATIONS_LIMITS.editBytesMax) return false
    for (const entry of this.#entries)
      if (entry.key === key && entry.length === length && entry.digest === digest) this.#entries.delete(entry)
    this.#entries.add({ key, causes, place, edits, length, digest, usedAt: this.#now() })
    const [oldest] = this.#entries
    if (this.#entries.size > CONVERSATIONS_LIMITS.conversationsMax && oldest !== undefined) this.#entries.delete(oldest) // I2
    return true
  }

  forget(entry: KnownRepair): void {
    for (const known of this.#entries) if (known === entry) this.#entries.delete(known)
  }

  #forgetIdle(): void {
    const oldest = this.#now() - CONVERSATIONS_LIMITS.idleMs
    for (const entry of this.#entries) {
      if (entry.usedAt > oldest) return
      this.#entries.delete(entry)
    }
  }
}

// ---- details ----

/** Of the first so many bytes, for each of these lengths that the bytes have. One pass, however many lengths. */
function digestsAt(bytes: readonly Buffer[], lengths: ReadonlySet<number>): ReadonlyMap<number, string> {
  const digests = new Map<number, string>()
  const hash: Hash = createHash('sha256')
  const ends = [...lengths].toSorted((one, other) => one - other)
  let at = 0
  for (const block of bytes) {
    let from = 0
    for (let end = ends[0]; end !== undefined && end <= at + block.length; end = ends[0]) {
      hash.update(block.subarray(from, end - at))
      from = end - at
      digests.set(end, hash.copy().digest('base64'))
      ends.shift()
    }
    if (ends.length === 0) break
    hash.update(block.subarray(from))
    at += block.length
  }
  return digests
}
