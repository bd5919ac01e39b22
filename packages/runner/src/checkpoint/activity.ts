/**
 * When a box's commands and tools were active, in file system time. A file whose last change falls outside these periods was
 * changed by someone else.
 *
 * I1  Every change by the box lies between a start and its end: both are read from the clock that stamps files.
 * I2  A start that has no end yet, or whose process was killed, covers everything up to now.
 */
import { closeSync, fstatSync, futimesSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode } from '@breakfall/faults/internal'
import { replaceFile } from '@breakfall/supervisor/platform'
import { pollUntil } from '../lib/poll-until.ts'

export type Span = { readonly from: bigint; /** Exclusive. */ readonly to: bigint }

/** Whether a change at this time was the box's. Pure; `spans` are in order. */
export function isInside(spans: readonly Span[], at: bigint): boolean {
  return spans.some(({ from, to }) => from <= at && at < to)
}

/** Adds a span; those that overlap or touch become one. Beyond `max`, the oldest two do, with the gap between them. Pure. */
export function withSpan(spans: readonly Span[], span: Span, max: number): readonly Span[] {
  const sorted = [...spans, span].toSorted((a, b) => (a.from < b.from ? -1 : a.from > b.from ? 1 : 0))
  const merged: Span[] = []
  for (const next of sorted) {
    const last = merged.at(-1)
    if (last !== undefined && next.from <= last.to)
      merged[merged.length - 1] = { from: last.from, to: larger(last.to, next.to) }
    else merged.push(next)
  }
  const [first, second, ...rest] = merged
  return merged.length > max && first && second ? [{ from: first.from, to: second.to }, ...rest] : merged
}

export class Activity {
  readonly #folder: string
  #spans: readonly Span[] | undefined
  readonly #open = new Map<string, bigint>()

  /** Of a folder that exists. */
  constructor(folder: string) {
    this.#folder = folder
  }

  /** After a restart, before anything else: closes the periods that a killed process left open. */
  recover(): void {
    this.#load()
    this.#save()
  }

  /** Something starts that may change files. Saved immediately: after a crash, the span ends when the next process starts. */
  begin(id: string): void {
    this.#load()
    if (this.#open.has(id)) return
    this.#open.set(id, this.#now().at)
    this.#save()
  }

  end(id: string): void {
    this.#load()
    const from = this.#open.get(id)
    if (from === undefined) return
    this.#open.delete(id)
    this.#add(from)
    this.#save()
  }

  /** Whether a file with this time of change was last changed by the box. */
  isOwn(changedAt: bigint): boolean {
    this.#load()
    const open = [...this.#open.values()].toSorted((a, b) => (a < b ? -1 : 1))[0]
    return isInside(this.#spans ?? [], changedAt) || (open !== undefined && open <= changedAt)
  }

  /** When the last activity ended; null if it still runs or there was none. */
  get lastEnd(): bigint | null {
    this.#load()
    return this.#open.size > 0 ? null : (this.#spans?.at(-1)?.to ?? null)
  }

  /** A time that is later than every change up to now, and not later than any change to come. */
  async tick(): Promise<bigint> {
    const first = this.#now().at
    const later = (): bigint | undefined => {
      const { at } = this.#now()
      return at > first ? at : undefined
    }
    // The clock of an older kernel moves every few milliseconds.
    return (await pollUntil(later, { everyMs: 1, forMs: TICK_MS_MAX })) ?? first
  }

  // ---- details, in the order they are used above ----

  /**
   * The second change of a file whose time was read gets a precise time on recent kernels, and no later change gets an earlier
   * one (multigrain timestamps, Linux 6.13). Older kernels give the time of the last tick, so both are the same.
   */
  #now(): { readonly at: bigint; readonly isCoarse: boolean } {
    const fd = openSync(join(this.#folder, 'clock'), 'a', 0o600)
    try {
      futimesSync(fd, 1, 1)
      const first = fstatSync(fd, { bigint: true }).ctimeNs
      futimesSync(fd, 2, 2)
      const at = fstatSync(fd, { bigint: true }).ctimeNs
      return { at, isCoarse: at === first }
    } finally {
      closeSync(fd)
    }
  }

  #add(from: bigint): void {
    const { at, isCoarse } = this.#now()
    this.#spans = withSpan(this.#spans ?? [], { from, to: isCoarse ? at + 1n : at }, SPANS_MAX)
  }

  #load(): void {
    if (this.#spans !== undefined) return
    this.#spans = []
    const open: bigint[] = []
    for (const line of this.#lines()) {
      const [from = '', to = ''] = line.split(' ')
      if (!/^\d+$/.test(from)) continue
      if (/^\d+$/.test(to)) this.#spans = withSpan(this.#spans, { from: BigInt(from), to: BigInt(to) }, SPANS_MAX)
      else open.push(BigInt(from))
    }
    for (const from of open) this.#add(from) // I2: open up to now
  }

  #lines(): readonly string[] {
    try {
      return readFileSync(join(this.#folder, 'activity'), 'utf8').split('\n')
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return []
      throw error
    }
  }

  /** Not synced: after a power cut, a lost span makes a restore ask once more, and nothing worse. */
  #save(): void {
    const lines = [
      ...(this.#spans ?? []).map(({ from, to }) => `${from} ${to}`),
      ...[...this.#open.values()].map((from) => `${from} -`),
    ]
    try {
      replaceFile(join(this.#folder, 'activity'), `${lines.join('\n')}\n`)
    } catch (error) {
      if (errorCode(error) !== 'ENOSPC' && errorCode(error) !== 'EDQUOT') throw error // a full disk must not stop a command
    }
  }
}

const SPANS_MAX = 2_000
const TICK_MS_MAX = 1_000
const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b)
