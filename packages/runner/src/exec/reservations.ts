/**
 * The ids that a box has used, synced to disk before anything starts: after a power cut that lost an exec's folder, its id
 * is still known and never started again.
 *
 * I1  So is the id of an exec whose record was removed because it was old: a line says so before the record goes. Ids stay as long as
 *     the box, because a turn may be recovered after any time.
 * I2  An id that was reserved and neither has a folder nor was forgotten never ran: its start was refused, or the runner died first.
 */
import { SyncedLines } from '../lib/synced-lines.ts'

export type ReservedId = { readonly execId: string; readonly machineBootId: string; readonly hash: string }

/** `isForgotten`: it may have run, and its record was removed (I1). */
export type Reserved = ReservedId & { readonly isForgotten: boolean }

export class Reservations {
  readonly #lines: SyncedLines
  /** Short hashes of forgotten ids, which take little memory however many there are. Two ids may share one. */
  #forgotten: Set<number> | undefined

  constructor(file: string) {
    this.#lines = new SyncedLines(file)
  }

  read(): readonly Reserved[] {
    const found = new Map<string, Reserved>()
    for (const line of this.#lines.read()) {
      const [execId, machineBootId, hash, version] = line.split(' ')
      if (execId === undefined || machineBootId === undefined) continue
      const known = found.get(execId)
      if (known !== undefined && machineBootId === FORGOTTEN) found.set(execId, { ...known, isForgotten: true })
      // Earlier versions forgot ids without a line, so one of theirs without a folder may have run.
      else if (hash !== undefined) found.set(execId, { execId, machineBootId, hash, isForgotten: version !== NOTED })
    }
    return [...found.values()]
  }

  async add({ execId, machineBootId, hash }: ReservedId): Promise<void> {
    await this.#lines.add(`${execId} ${machineBootId} ${hash} ${NOTED}`)
  }

  /** Throws if the disk is full: then the records must stay. */
  forget(execIds: readonly string[]): void {
    if (execIds.length === 0) return
    const forgotten = this.#index()
    const isNew = (execId: string): boolean => !forgotten.has(shortHash(execId)) || this.find(execId) === undefined
    const lines = execIds.filter(isNew).map((execId) => `${execId} ${FORGOTTEN}`)
    if (lines.length > 0) this.#lines.addNow(lines.join('\n')) // I1
    for (const execId of execIds) forgotten.add(shortHash(execId))
  }

  /** An id whose record was removed. */
  find(execId: string): ReservedId | undefined {
    if (!this.#index().has(shortHash(execId))) return undefined
    return this.read().find((known) => known.execId === execId && known.isForgotten)
  }

  close(): void {
    this.#lines.close()
  }

  #index(): Set<number> {
    this.#forgotten ??= new Set(
      this.read().flatMap(({ execId, isForgotten }) => (isForgotten ? [shortHash(execId)] : [])),
    )
    return this.#forgotten
  }
}

// ---- details ----

const FORGOTTEN = 'forgotten'
const NOTED = 'noted'

/** FNV-1a, as a small integer. */
function shortHash(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash >>> 2
}
