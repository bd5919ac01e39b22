/** How a run ended: the fields of its result line, and its exit code. */
import { EXIT_CODES, exitCodeOf, type FaultReport } from '@breakfall/faults'
import { type Cost, isCutOff, type Usage } from '@breakfall/wire'
import { exitCodeWhenParked } from '../../render/parked.ts'

export type RunResult = {
  /** `detached`: the turn was started, and the run did not follow it. */
  readonly outcome: 'finished' | 'failed' | 'cancelled' | 'parked' | 'detached'
  readonly turnId: string
  readonly text: string
  /** `actor`: who cancelled the turn. */
  readonly fault: (FaultReport & { readonly actor?: string | undefined }) | null
  readonly faultsSurvived: number
  /** Why the model stopped, if not because it was done; and whether the server sent no proof of a complete answer. */
  readonly finish?: string | undefined
  readonly unproven?: boolean | undefined
  /** What the turn used, what that cost if prices are set, and how long it took. Absent if it is not known. */
  readonly usage?: Usage | undefined
  readonly cost?: Cost | undefined
  readonly durationMs?: number | undefined
  /** Files that the turn changed. `filesUnknown`: commands ran, and what they changed is not fully known. */
  readonly filesChanged?: readonly string[]
  readonly filesUnknown?: true
  /** The turn was not cancelled: this run has left it running. */
  readonly left?: true
}

export function exitCodeFor({ outcome, fault, finish }: RunResult): number {
  switch (outcome) {
    case 'finished':
      return isCutOff({ finish }) ? EXIT_CODES.budget : EXIT_CODES.finished
    case 'detached':
      return EXIT_CODES.finished
    case 'cancelled':
      return EXIT_CODES.cancelled
    case 'parked':
      return exitCodeWhenParked(fault?.category ?? '')
    case 'failed':
      return fault === null ? EXIT_CODES.failed : exitCodeOf(fault)
  }
}
