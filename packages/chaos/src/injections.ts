/** The log of what a proxy injected, for tables, reports and tests. Bounded. */
import type { ChaosFault } from './fault-kinds.ts'
import type { CountedRequest } from './plan.ts'

/** One planned fault and its outcome. */
export type Injection = {
  readonly at: string
  readonly request: number
  readonly fingerprint: string
  readonly attempt: number
  readonly method: string
  readonly path: string
  readonly fault: ChaosFault
  /** `missed`: it did not apply to the answer (no tool call to cut), or the client disconnected first. */
  readonly outcome: 'injected' | 'missed'
  /** How much of the answer's body had been forwarded by then. */
  readonly bytes: number
  readonly events: number
}

export type ProxyEvent =
  | ({
      readonly type: 'request'
      readonly method: string
      readonly path: string
      readonly fault: ChaosFault | null
    } & CountedRequest)
  | { readonly type: 'injection'; readonly injection: Injection }
  | { readonly type: 'answered'; readonly status: number; readonly method: string; readonly path: string }
  | { readonly type: 'client_left'; readonly method: string; readonly path: string }
  | { readonly type: 'upstream_failed'; readonly method: string; readonly path: string; readonly error: unknown }
  | { readonly type: 'listening' | 'refusing' }

export class InjectionLog {
  readonly list: Injection[] = []
  readonly #onEvent: (event: ProxyEvent) => void

  constructor(onEvent: (event: ProxyEvent) => void) {
    this.#onEvent = onEvent
  }

  add(injection: Injection): void {
    this.list.push(injection)
    if (this.list.length > INJECTIONS_MAX) this.list.shift()
    this.#onEvent({ type: 'injection', injection })
  }

  emit(event: ProxyEvent): void {
    this.#onEvent(event)
  }
}

// ---- details ----

const INJECTIONS_MAX = 100_000
