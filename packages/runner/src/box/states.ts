/** The states of a box as a table: which may follow which, and how a command is refused in each. */
import { Fault } from '@breakfall/faults'
import { type BoxState } from '@breakfall/wire'

export const BOX_TRANSITIONS = {
  creating: ['running', 'failed'],
  running: ['stopping'],
  stopping: ['stopped'],
  stopped: ['running', 'removing'],
  removing: [],
  failed: ['removing'],
} as const satisfies Record<BoxState, readonly BoxState[]>

export function mayFollow(from: BoxState, to: BoxState): boolean {
  return BOX_TRANSITIONS[from].some((state) => state === to)
}

/** Throws unless the box is running. */
export function requireRunning(boxId: string, state: BoxState): void {
  if (state === 'running') return
  throw wrongState(boxId, state)
}

export function wrongState(boxId: string, state: BoxState): Fault {
  return new Fault(state === 'stopped' ? 'box_stopped' : 'box_invalid_state', {
    facts: { name: boxId, boxState: state },
    errorRaw: `box ${boxId} in state ${state}`,
    boxId,
    boxState: state,
  })
}
