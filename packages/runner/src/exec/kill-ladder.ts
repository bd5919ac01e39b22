/**
 * How an exec is ended: SIGTERM to the inner group, its grace, SIGKILL to everything that belongs to it. Bounded as a
 * whole: grace plus two seconds, whatever the processes do.
 */
import type { ProcessTree } from './tree.ts'

export type Climb = {
  readonly tree: ProcessTree
  readonly graceMs: number
  /** Reads what the keeper has said by now. True when it is known whom to signal. */
  readonly look: () => boolean
  /** Waits until it is over, or so long; true when it is over, or no longer ours. */
  readonly over: (ms: number) => Promise<boolean>
  readonly monotonicMs: () => number
}

const STEP_MS = 100
const KILL_ROUNDS = 20

/** True where it came to an end; false where even SIGKILL was not enough. */
export async function climb(plan: Climb): Promise<boolean> {
  const until = plan.monotonicMs() + plan.graceMs
  const left = (): number => until - plan.monotonicMs()
  while (!plan.look() && left() > 0) {
    if (await plan.over(Math.min(5, left()))) return true // ended before anybody knew its pid
  }
  if (plan.graceMs > 0) {
    plan.tree.signal('SIGTERM')
    plan.tree.signal('SIGCONT') // a stopped process takes its SIGTERM only when it goes on
    if (left() > 0 && (await plan.over(left()))) return true
  }
  for (let round = 0; round < KILL_ROUNDS; round += 1) {
    plan.look()
    plan.tree.kill()
    if (await plan.over(STEP_MS)) return true
  }
  return false
}
