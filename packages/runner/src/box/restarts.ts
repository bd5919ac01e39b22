/**
 * Restarts background processes after they fail, if their request says so: each time as a new exec, `ID.2`, `ID.3` and
 * so on, after 1 s, 2 s, 4 s …
 *
 * I1  Only an end that the process caused itself counts: not a kill, a stop of the box, a time limit or a lost runner.
 * I2  Nothing is restarted in a box that was stopped since.
 * I3  Nothing is stored: the next runner finds the same ends on disk and decides the same.
 */
import type { BoxState } from '@breakfall/wire'
import { ID_PATTERN } from '@breakfall/wire/internal'
import type { ExecEnd, ExecReservation } from '../exec/folder.ts'

/** What it needs of its box. */
export type RestartingBox = {
  readonly state: BoxState
  /** When the box came into its state. */
  readonly sinceMs: number
  readonly now: () => number
  readonly has: (execId: string) => boolean
  readonly start: (run: NextRun & Pick<ExecReservation, 'request'>, admit?: () => void) => Promise<unknown>
}

/** Which exec this is a further run of. */
export type Origin = { readonly first: string; readonly restarts: number }

type NextRun = { readonly execId: string; readonly origin: Origin }

export const RESTART_DEFAULTS = { delayMsFirst: 1_000, delayMsMax: 60_000 } as const

export class Restarts {
  readonly #box: RestartingBox
  readonly #timers = new Set<NodeJS.Timeout>()

  constructor(box: RestartingBox) {
    this.#box = box
  }

  /** An exec has ended, now or before this runner started. */
  ended(reservation: ExecReservation, end: ExecEnd): void {
    const restarts = reservation.origin?.restarts ?? 0
    if (!isDue(reservation, end)) return
    const { delayMsFirst, delayMsMax } = RESTART_DEFAULTS
    const delayMs = Math.min(delayMsFirst * 2 ** restarts, delayMsMax)
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer)
        const { state, sinceMs } = this.#box
        if (state === 'running' && sinceMs <= end.endedAtMs) void this.again(reservation)?.catch(ignored) // I2
      },
      Math.max(0, end.endedAtMs + delayMs - this.#box.now()),
    )
    timer.unref()
    this.#timers.add(timer)
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
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers.clear()
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
