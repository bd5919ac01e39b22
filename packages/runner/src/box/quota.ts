/** How many boxes a prefix may have. Running boxes are few, because they use processes and memory; stopped ones only use disk. */
import { Fault } from '@breakfall/faults'
import type { BoxState } from '@breakfall/wire'
import type { RunnerLimits } from '../host/host.ts'

export type BoxCounts = { readonly running: number; readonly kept: number }

/** `kept` are the boxes that are not running. */
export function countBoxes(boxes: Iterable<{ readonly state: BoxState }>): BoxCounts {
  let running = 0
  let kept = 0
  for (const { state } of boxes) {
    if (USES_PROCESSES.has(state)) running += 1
    else kept += 1
  }
  return { running, kept }
}

/** Throws if one more box cannot run. */
export function requireRoomToRun({ boxesMax }: Pick<RunnerLimits, 'boxesMax'>, { running }: BoxCounts): void {
  if (running < boxesMax) return
  throw new Fault('quota_exceeded', {
    facts: {
      limit: `${boxesMax} running boxes per prefix`,
      setting: 'boxesMax of the runner ([runner] boxesMax, or --boxes-max)',
    },
  })
}

/** Throws if one more box cannot be made. */
export function requireRoomToMake(limits: Pick<RunnerLimits, 'boxesMax' | 'boxesKeptMax'>, counts: BoxCounts): void {
  requireRoomToRun(limits, counts)
  if (counts.kept < limits.boxesKeptMax) return
  throw new Fault('quota_exceeded', {
    facts: { limit: `${limits.boxesKeptMax} stopped boxes per prefix`, setting: 'boxesKeptMax (--boxes-kept-max)' },
    message: { advice: 'Delete sessions that you do not need (breakfall prune), or raise --boxes-kept-max.' },
  })
}

// ---- details ----

const USES_PROCESSES: ReadonlySet<BoxState> = new Set<BoxState>(['creating', 'running', 'stopping'])
