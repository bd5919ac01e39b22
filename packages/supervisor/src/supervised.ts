/** What one sees of a supervised child: its state, its events, and what one may ask of it. */
import type { Fault } from '@breakfall/faults'
import type { Diagnosis } from './diagnostics.ts'
import type { Dropped } from './event-stream.ts'
import type { InFlightRequest, RequestInit } from './in-flight.ts'
import type { ExitReport } from './report.ts'
import type { GiveUpReason } from './restart-policy.ts'

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
  | { readonly type: 'exit'; readonly at: string; readonly report: ExitReport }

export type Supervised = AsyncDisposable & {
  readonly id: string
  readonly name: string
  readonly state: ChildState
  /** Takes requests now. False also in the moment between an exit and its report. */
  readonly serving: boolean
  readonly pid: number | null
  /** How the latest run ended, where one has. */
  readonly report: ExitReport | null
  /** Resolves when it is ready; rejects with the fault of this start as soon as it has failed. Forgives what was. */
  readonly start: () => Promise<void>
  /** Resolves when it is ready, through restarts; rejects when it is given up or stopped, or by the signal. */
  readonly ready: (signal?: AbortSignal) => Promise<void>
  readonly stop: () => Promise<ExitReport | null>
  readonly restart: () => Promise<void>
  /** Registers a request that the child works on. Throws a fault where the child is not ready. */
  readonly request: (init?: RequestInit) => InFlightRequest
  /** Probes a ready child now. Ends it, as unhealthy, if it no longer listens where its `ready` probe looks. */
  readonly checkListening: () => Promise<void>
  readonly write: (data: string | Uint8Array) => Promise<void>
  readonly on: (listener: (event: ChildEvent) => void) => () => void
  readonly events: (signal?: AbortSignal) => AsyncIterableIterator<ChildEvent | Dropped>
}
