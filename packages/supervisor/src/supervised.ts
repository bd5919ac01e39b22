/** The public face of a supervised child: its state, its events and its methods. */
import type { Fault } from '@breakfall/faults'
import type { Diagnosis } from './diagnostics.ts'
import type { Dropped } from './event-stream.ts'
import type { InFlightRequest, RequestInit } from './in-flight.ts'
import type { ExitReport, GiveUpReason, JudgedReport } from './report.ts'

export type ChildState =
  | { readonly status: 'stopped'; readonly report: ExitReport | null }
  | { readonly status: 'starting'; readonly runId: string; readonly attempt: number }
  | { readonly status: 'ready'; readonly runId: string; readonly pid: number }
  | { readonly status: 'busy'; readonly runId: string; readonly pid: number }
  | { readonly status: 'stopping'; readonly runId: string }
  | { readonly status: 'failed'; readonly report: ExitReport; readonly fault: Fault }
  | { readonly status: 'backoff'; readonly until: string; readonly attempt: number; readonly report: ExitReport }
  | {
      readonly status: 'given_up'
      readonly reason: GiveUpReason
      readonly report: ExitReport
      readonly fault: Fault
    }

export type ChildEvent =
  | { readonly type: 'state'; readonly at: string; readonly state: ChildState }
  | { readonly type: 'diagnosis'; readonly at: string; readonly runId: string; readonly diagnosis: Diagnosis }
  | { readonly type: 'progress'; readonly at: string; readonly runId: string; readonly message: string }
  /** It is alive but useless, and is being ended. Its requests fail right after this; the report is provisional. */
  | { readonly type: 'ending'; readonly at: string; readonly report: JudgedReport }
  | { readonly type: 'exit'; readonly at: string; readonly report: ExitReport }

export type StartOptions = { readonly onProbation?: boolean }

export type Supervised = AsyncDisposable & {
  readonly id: string
  readonly name: string
  readonly state: ChildState
  /** Accepts requests now. Also false between an exit and its report. */
  readonly serving: boolean
  readonly pid: number | null
  /** How the latest run ended, or null if none has ended. */
  readonly report: ExitReport | null
  /** The last line on the stderr of the latest run, redacted. */
  readonly lastLine: string | null
  /**
   * Resolves when the child is ready. Rejects with the fault of this start as soon as it fails. Earlier failures no longer count,
   * unless the child is `onProbation`: then one failure gives it up.
   */
  readonly start: (options?: StartOptions) => Promise<void>
  /** Resolves when the child is ready, through restarts. Rejects when it is given up or stopped, or when the signal fires. */
  readonly ready: (signal?: AbortSignal) => Promise<void>
  readonly stop: () => Promise<ExitReport | null>
  readonly restart: () => Promise<void>
  /** The caller found the child useless: it is ended as unhealthy and restarts as after a crash. */
  readonly fail: (why: string) => void
  /** Registers a request that the child works on. Throws a fault if the child is not ready. */
  readonly request: (init?: RequestInit) => InFlightRequest
  /** Probes a ready child now. Ends it, as unhealthy, if it no longer listens where its `ready` probe looks. */
  readonly checkListening: () => Promise<void>
  readonly write: (data: string | Uint8Array) => Promise<void>
  readonly on: (listener: (event: ChildEvent) => void) => () => void
  readonly events: (signal?: AbortSignal) => AsyncIterableIterator<ChildEvent | Dropped>
}
