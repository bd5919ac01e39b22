/**
 * How an exec is ended: SIGTERM to the inner process group, a grace period, then SIGKILL to everything that belongs to it.
 * Bounded as a whole: the grace period plus two seconds, no matter what the processes do.
 */
import type { ProcessTree } from './process-tree.ts'

export type Termination = {
  readonly tree: ProcessTree
  readonly graceMs: number
  /** Reads what the keeper has written by now. True once it is known which processes to signal. */
  readonly isReady: () => boolean
  /** Waits at most this long; true if the exec is over, or no longer ours. */
  readonly isOver: (waitMs: number) => Promise<boolean>
  readonly monotonicMs: () => number
}

const READY_STEP_MS = 5
const KILL_STEP_MS = 100
const KILLS_MAX = 20

/** False if even SIGKILL was not enough. */
export async function terminate({ tree, graceMs, isReady, isOver, monotonicMs }: Termination): Promise<boolean> {
  const untilMs = monotonicMs() + graceMs
  const remainingMs = (): number => untilMs - monotonicMs()
  while (!isReady() && remainingMs() > 0) {
    if (await isOver(Math.min(READY_STEP_MS, remainingMs()))) return true // it ended before its pid was known
  }
  if (graceMs > 0) {
    tree.signal('SIGTERM')
    tree.signal('SIGCONT') // a stopped process receives its SIGTERM only when it continues
    if (remainingMs() > 0 && (await isOver(remainingMs()))) return true
  }
  for (let kills = 0; kills < KILLS_MAX; kills += 1) {
    isReady()
    tree.kill()
    if (await isOver(KILL_STEP_MS)) return true
  }
  return false
}
