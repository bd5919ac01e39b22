/** What a box tried to reach and may not, counted by name; the oldest are forgotten first. */
import type { Diagnostic } from '@breakfall/faults'
import { isObject } from '@breakfall/faults/internal'
import { replaceFile } from '@breakfall/supervisor/platform'
import { readJsonFile } from '../lib/disk.ts'

export const DENIAL_REASONS = ['not_allowed', 'private_address', 'other_name', 'no_address'] as const
export type DenialReason = (typeof DENIAL_REASONS)[number]

export type Denial = {
  /** A name, or an address that was tried without one. */
  readonly name: string
  /** Null: it was only looked up. */
  readonly port: number | null
  readonly because: DenialReason
}

export type Denied = Denial & { readonly count: number; readonly lastAtMs: number }

const ENTRIES_MAX = 256

export class Denials {
  readonly #entries = new Map<string, Denied>()
  readonly #lookups = new Map<string, Map<number, number>>()

  get list(): readonly Denied[] {
    return [...this.#entries.values()]
  }

  /** The stored counts of an earlier process. Invalid entries are left out. */
  read(stored: unknown): void {
    for (const entry of Array.isArray(stored) ? stored.slice(-ENTRIES_MAX) : []) {
      const denied = deniedOf(entry)
      if (denied !== undefined) this.#entries.set(keyOf(denied), denied)
    }
  }

  add(denial: Denial, nowMs: number): void {
    this.#count(denial, nowMs, (this.#entries.get(keyOf(denial))?.count ?? 0) + 1)
  }

  /** A program asks for several address types at once; they count as one attempt. */
  lookedUp(name: string, type: number, nowMs: number): void {
    const denial: Denial = { name, port: null, because: 'not_allowed' }
    const types = this.#lookups.get(name) ?? new Map<number, number>()
    const before = types.size === 0 ? 0 : Math.max(...types.values())
    types.set(type, (types.get(type) ?? 0) + 1)
    this.#lookups.set(name, types)
    const more = Math.max(...types.values()) - before
    this.#count(denial, nowMs, (this.#entries.get(keyOf(denial))?.count ?? 0) + more)
  }

  /** The current counts, to compare with later ones. */
  snapshot(): ReadonlyMap<string, number> {
    return new Map([...this.#entries].map(([key, { count }]) => [key, count]))
  }

  since(snapshot: ReadonlyMap<string, number>): readonly Denied[] {
    return [...this.#entries].flatMap(([key, entry]) => {
      const count = entry.count - (snapshot.get(key) ?? 0)
      return count > 0 ? [{ ...entry, count }] : []
    })
  }

  #count(denial: Denial, lastAtMs: number, count: number): void {
    const key = keyOf(denial)
    this.#entries.delete(key) // the newest is last
    this.#entries.set(key, { ...denial, count, lastAtMs })
    if (this.#entries.size <= ENTRIES_MAX) return
    const oldest = this.#entries.values().next().value
    if (oldest === undefined) return
    this.#entries.delete(keyOf(oldest))
    if (oldest.port === null) this.#lookups.delete(oldest.name)
  }
}

/**
 * Keeps the list on disk, so people still see it after a restart of the runner. Written at most once a second and not synced:
 * a box may try again and again, and nothing but that list depends on it.
 */
export class DenialFile {
  readonly #file: string
  readonly #denials: Denials
  #timer: NodeJS.Timeout | undefined

  constructor(file: string, denials: Denials) {
    this.#file = file
    this.#denials = denials
    try {
      denials.read(readJsonFile(file))
    } catch {
      // Damaged: the list starts empty.
    }
  }

  saveSoon(): void {
    this.#timer ??= setTimeout(() => this.save(), SAVE_MS)
    this.#timer.unref()
  }

  /** If there is something new. */
  save(): void {
    if (this.#timer === undefined) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    try {
      replaceFile(this.#file, JSON.stringify(this.#denials.list))
    } catch {
      // The disk is full, or the box was removed.
    }
  }
}

/** What the exit record of a command says about it. Pure. */
export function networkDenied(allow: readonly string[], denied: readonly Denied[]): Diagnostic {
  const shown = denied.slice(0, SHOWN_MAX).map(({ name, port, count, because }) => {
    const times = count === 1 ? '' : ` (${count}×)`
    return `${name}${port === null ? '' : `:${port}`} was refused${times}${WHY[because]}`
  })
  const more = denied.length > SHOWN_MAX ? [`${denied.length - SHOWN_MAX} more were refused`] : []
  return {
    id: 'network_denied',
    rank: 'hint',
    message: `this box may reach only ${allow.length === 0 ? 'nothing' : allow.map(withoutPrefix).join(', ')}; ${[...shown, ...more].join('; ')}`,
    advice: 'this is policy and not a fault: do not look for a way around it; ask the person to allow the name',
    retry: 'never',
    evidence: denied.slice(0, SHOWN_MAX).map(({ name, port }) => (port === null ? name : `${name}:${port}`)),
    count: denied.reduce((sum, { count }) => sum + count, 0),
  }
}

// ---- details ----

const SAVE_MS = 1_000
const SHOWN_MAX = 8

/** People and models say `npm`. */
const withoutPrefix = (name: string): string => name.replace(/^preset:/, '')

const WHY: Readonly<Record<DenialReason, string>> = {
  not_allowed: '',
  private_address: ', because its address is not on the public internet',
  other_name: ', because it asked for another name there',
  no_address: ', because it has no address',
}

function deniedOf(json: unknown): Denied | undefined {
  if (!isObject(json)) return undefined
  const { name, port, because, count, lastAtMs } = json
  const reason = DENIAL_REASONS.find((known) => known === because)
  const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)
  if (typeof name !== 'string' || reason === undefined || !isNumber(count) || !isNumber(lastAtMs)) return undefined
  return { name, port: isNumber(port) ? port : null, because: reason, count, lastAtMs }
}

const keyOf = ({ name, port, because }: Denial): string => `${name} ${port ?? ''} ${because}`
