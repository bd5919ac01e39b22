/** The live record of what a proxy did: what it injected where, for tables, reports and tests. Bounded. */
import type { ChaosFault } from './fault-kinds.ts'
import type { Asked } from './plan.ts'

/** One planned fault and what became of it. */
export type Injection = {
  readonly at: string
  readonly request: number
  readonly fingerprint: string
  readonly attempt: number
  readonly method: string
  readonly path: string
  readonly fault: ChaosFault
  /** `missed`: the answer had no place for it (no tool call to cut), or the client left before. */
  readonly outcome: 'injected' | 'missed'
  /** What had been forwarded of the answer's body by then. */
  readonly bytes: number
  readonly events: number
}

export type ProxyEvent =
  | ({
      readonly type: 'request'
      readonly method: string
      readonly path: string
      readonly fault: ChaosFault | null
    } & Asked)
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

  tell(event: ProxyEvent): void {
    this.#onEvent(event)
  }
}

// ---- details ----

const INJECTIONS_MAX = 100_000
