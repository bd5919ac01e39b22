/**
 * Restarts background processes after they fail, if their request says so: each time as a new exec, `ID.2`, `ID.3` and
 * so on, after 1 s, 2 s, 4 s … Its caller chose that, and the pace is part of the API: `decide`, which is about calls, is not asked.
 *
 * I1  Only an end that the process caused itself counts: not a kill, a stop of the box, a time limit or a lost runner.
 * I2  Nothing is restarted in a box that was stopped since.
 * I3  The next runner finds the same ends on disk and decides the same. Only that a caller has ended the wait is stored.
 */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BoxState } from '@breakfall/wire'
import { ID_PATTERN } from '@breakfall/wire/internal'
import type { ExecEnd, ExecReservation } from '../exec/exec-folder.ts'

/** What it needs of its box. */
export type RestartingBox = {
  readonly state: BoxState
  /** When the box came into its state. */
  readonly sinceMs: number
  readonly now: () => number
  readonly has: (execId: string) => boolean
  readonly folderOf: (execId: string) => string
  readonly start: (run: NextRun & Pick<ExecReservation, 'request'>, admit?: () => void) => Promise<unknown>
}

/** Which exec this is a further run of. */
export type Origin = { readonly first: string; readonly restarts: number }

type Waiting = { readonly reservation: ExecReservation; readonly timer: NodeJS.Timeout }

type NextRun = { readonly execId: string; readonly origin: Origin }

export const RESTART_DEFAULTS = { delayMsFirst: 1_000, delayMsMax: 60_000 } as const

export class Restarts {
  readonly #box: RestartingBox
  /** Runs that have ended and wait for their next one, by their id. */
  readonly #waiting = new Map<string, Waiting>()

  constructor(box: RestartingBox) {
    this.#box = box
  }

  /** An exec has ended, now or before this runner started. */
  ended(reservation: ExecReservation, end: ExecEnd): void {
    const restarts = reservation.origin?.restarts ?? 0
    const { execId } = reservation
    if (!isDue(reservation, end) || existsSync(this.#markOf(execId))) return
    const { delayMsFirst, delayMsMax } = RESTART_DEFAULTS
    const delayMs = Math.min(delayMsFirst * 2 ** restarts, delayMsMax)
    const timer = setTimeout(
      () => {
        const { state, sinceMs } = this.#box
        const isRunning = state === 'running' && sinceMs <= end.endedAtMs // I2
        const run = isRunning ? this.again(reservation) : undefined
        if (run === undefined) this.#waiting.delete(execId)
        else void run.catch(ignored).finally(() => this.#waiting.delete(execId)) // until then it is listed
      },
      Math.min(Math.max(0, end.endedAtMs + delayMs - this.#box.now()), delayMs), // the clock may have been turned back
    )
    timer.unref()
    this.#waiting.set(execId, { reservation, timer })
  }

  /** Those that are listed although nothing of them runs. */
  get waiting(): readonly ExecReservation[] {
    if (this.#box.state !== 'running') return []
    const hasNext = (run: ExecReservation): boolean => this.#box.has(nextRun(run)?.execId ?? '')
    return [...this.#waiting.values()].map(({ reservation }) => reservation).filter((run) => !hasNext(run))
  }

  /** The process that this was a run of is not started again, by this runner or a later one. */
  stop({ execId }: Pick<ExecReservation, 'execId'>): void {
    const waiting = this.#waiting.get(execId)
    if (waiting === undefined) return
    try {
      writeFileSync(this.#markOf(execId), '', { mode: 0o600 }) // I3
    } catch {
      // The disk is full: it does not start while this runner lives.
    }
    clearTimeout(waiting.timer)
    this.#waiting.delete(execId)
  }

  /** Its next run; undefined if there is one already. `admit` throws if the caller is not the owner any more. */
  again(reservation: ExecReservation, admit?: () => void): Promise<unknown> | undefined {
    const next = nextRun(reservation)
    if (next === undefined || this.#box.has(next.execId)) return undefined
    const { background = {} } = reservation.request
    const request = {
      ...reservation.request,
      background: { ...background, name: background.name ?? next.origin.first },
    }
    return this.#box.start({ ...next, request }, admit)
  }

  /** For a box that stops, and a runner that ends. */
  close(): void {
    for (const { timer } of this.#waiting.values()) clearTimeout(timer)
    this.#waiting.clear()
  }

  #markOf(execId: string): string {
    return join(this.#box.folderOf(execId), 'not-again')
  }
}

/** I1. Pure. */
export function isDue({ request, origin }: Pick<ExecReservation, 'request' | 'origin'>, { exit }: ExecEnd): boolean {
  const max = request.background?.restart?.max ?? 0
  if ((origin?.restarts ?? 0) >= max || exit.started === false) return false
  return exit.cause === 'oom_killed' || exit.cause === 'signaled' || (exit.cause === 'exited' && exit.code !== 0)
}

/** Undefined if the id would be too long. Pure. */
export function nextRun({
  execId,
  origin = { first: execId, restarts: 0 },
}: Pick<ExecReservation, 'execId' | 'origin'>): NextRun | undefined {
  const restarts = origin.restarts + 1
  const next = `${origin.first}.${restarts + 1}`
  return ID_PATTERN.test(next) ? { execId: next, origin: { first: origin.first, restarts } } : undefined
}

const ignored = (): void => {
  // The box has no room for it, or is being stopped: the exit record of its last run stands.
}
