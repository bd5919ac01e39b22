/**
 * The execs of one box: live ones in memory, finished ones on disk with a few numbers in memory.
 */
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'
import type { Exec as ExecRecord } from '@breakfall/wire'
import { readReadiness } from '../exec/background.ts'
import type { Exec } from '../exec/exec.ts'
import { execRecord } from '../exec/record.ts'
import { type ExecEnd, readEnd, readReservation } from '../exec/exec-folder.ts'
import type { Retention } from '../host/options.ts'

/** What events, output and waiting need from an exec, live or finished. */
export type ExecView = {
  readonly id: string
  readonly folder: string
  readonly count: number
  readonly isOver: boolean
  readonly end: ExecEnd | undefined
  record(): ExecRecord
  changed(signal: AbortSignal): Promise<void>
  over(signal: AbortSignal): Promise<void>
}

type Finished = { readonly endedAtMs: number; readonly bytes: number; readonly hash: string; dropped: boolean }

export class BoxExecs {
  readonly live = new Map<string, Exec>()
  readonly #finished = new Map<string, Finished>()
  #keptBytes = 0
  readonly #folder: string
  readonly #boxId: string
  readonly #forget: (execIds: readonly string[]) => void

  /** `forget` notes ids whose records are about to go; if it throws, they stay. */
  constructor(folder: string, boxId: string, forget: (execIds: readonly string[]) => void) {
    this.#folder = folder
    this.#boxId = boxId
    this.#forget = forget
  }

  folderOf(execId: string): string {
    return join(this.#folder, execId)
  }

  /** The exec folders that exist, even damaged ones. */
  onDisk(): readonly string[] {
    return readdirSync(this.#folder)
  }

  addLive(exec: Exec): void {
    this.live.set(exec.id, exec)
  }

  addFinished(execId: string, end: ExecEnd, hash: string, dropped: boolean): void {
    const bytes = end.exit.stdoutBytes + end.exit.stderrBytes
    this.live.delete(execId)
    this.#finished.set(execId, { endedAtMs: end.endedAtMs, bytes, hash, dropped })
    if (!dropped) this.#keptBytes += bytes
  }

  hashOf(execId: string): string | undefined {
    return this.live.get(execId)?.setup.reservation.hash ?? this.#finished.get(execId)?.hash
  }

  find(execId: string): ExecView | undefined {
    const live = this.live.get(execId)
    if (live !== undefined) return live
    return this.#finished.has(execId) ? finishedView(this.#boxId, this.folderOf(execId)) : undefined
  }

  get(execId: string): ExecView {
    const found = this.find(execId)
    if (found === undefined)
      throw new Fault('exec_not_found', {
        facts: { name: execId.slice(0, 128) },
        boxId: this.#boxId,
        execId: execId.slice(0, 128),
      })
    return found
  }

  /** Sorted by id. Ids that the runner makes sort by time. */
  ids(): readonly string[] {
    return [...this.#finished.keys(), ...this.live.keys()].toSorted()
  }

  /** Output bytes of finished execs. */
  get keptBytes(): number {
    return this.#keptBytes
  }

  /** Drops output that is too old or too large, oldest first, and finally the records. */
  sweep(now: number, retention: Retention): void {
    const oldestFirst = [...this.#finished].toSorted(([, a], [, b]) => a.endedAtMs - b.endedAtMs)
    for (const [execId, entry] of oldestFirst) {
      const isOld = now - entry.endedAtMs > retention.ms
      if (entry.dropped || (!isOld && this.#keptBytes <= retention.bytesPerBox)) continue
      for (const spool of ['stdout', 'stderr']) rmSync(join(this.folderOf(execId), spool), { force: true })
      entry.dropped = true
      this.#keptBytes -= entry.bytes
    }
    const tooMany = this.#finished.size - retention.recordsPerBox
    const old = oldestFirst.filter(([, entry], i) => i < tooMany || now - entry.endedAtMs > retention.recordMs)
    try {
      this.#forget(old.map(([execId]) => execId))
    } catch {
      return // the disk is full: the records stay until the next sweep
    }
    for (const [execId, entry] of old) {
      rmSync(this.folderOf(execId), { recursive: true, force: true })
      this.#finished.delete(execId)
      if (!entry.dropped) this.#keptBytes -= entry.bytes
    }
  }
}

// ---- details ----

const immediately = (): Promise<void> => Promise.resolve()

function finishedView(boxId: string, folder: string): ExecView {
  const reservation = readReservation(folder)
  const end = readEnd(folder)
  if (end === undefined) throw new Error(`exec ${reservation.execId} is listed as finished, but its end is not on disk`)
  return {
    id: reservation.execId,
    folder,
    count: end.lastSeq - 1,
    isOver: true,
    end,
    record: () =>
      execRecord(boxId, reservation, {
        state: 'exited',
        startedAtMs: end.startedAtMs,
        stdoutBytes: end.exit.stdoutBytes,
        stderrBytes: end.exit.stderrBytes,
        lastSeq: end.lastSeq,
        end,
        background: reservation.request.background && {
          name: reservation.request.background.name ?? reservation.execId,
          ready: readReadiness(folder) !== undefined,
          readyMs: readReadiness(folder)?.readyMs ?? null,
          ports: [],
          restarts: reservation.origin?.restarts ?? 0,
        },
      }),
    changed: immediately,
    over: immediately,
  }
}
