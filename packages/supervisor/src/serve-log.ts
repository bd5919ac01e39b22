/**
 * What a model server is doing, boot by boot: for people who wait for it, and for the faults of requests to it.
 *
 * I1  Every fault at a served model gets its `serve` facts here, and those are the facts of the boot that the request was sent to.
 */
import type { Fault } from '@breakfall/faults'
import type { ServeFacts, ServeState } from '@breakfall/faults/internal'
import type { ChildEvent, ChildState, Supervised } from './supervised.ts'

export type ServeStatus = ServeFacts & {
  /** When it entered this state. */
  readonly since: string
  /** The last line on its stderr. */
  readonly line: string | null
}

/** One start of the server. */
export type Boot = {
  readonly number: number
  pid: number | null
  exit: ServeFacts['exit']
  isHung: boolean
}

export class ServeLog {
  readonly #supervised: Supervised
  #boot: Boot = newBoot(0)
  #state: ServeState = 'loading'
  #since: string

  constructor(supervised: Supervised, nowMs: number) {
    this.#supervised = supervised
    this.#since = new Date(nowMs).toISOString()
    supervised.on((event) => this.#record(event))
  }

  get boot(): Boot {
    return this.#boot
  }

  get status(): ServeStatus {
    return { ...this.#factsOf(this.#boot), since: this.#since, line: this.#supervised.lastLine }
  }

  /** The fault, with what is known about the boot that it happened at. */
  explain(fault: Fault, boot: Boot = this.#boot): Fault {
    const serve = this.#factsOf(boot) // I1
    return fault.with(fault.report.phase === 'starting' ? { serve, phase: 'loading' } : { serve })
  }

  // ---- details ----

  #factsOf({ number, pid, exit, isHung }: Boot): ServeFacts {
    const isCurrent = number === this.#boot.number
    const state = isHung && !(isCurrent && this.#state === 'given_up') ? 'hung' : isCurrent ? this.#state : 'restarting'
    return { boot: number, pid: pid ?? (isCurrent ? this.#supervised.pid : null), state, exit }
  }

  #record(event: ChildEvent): void {
    switch (event.type) {
      case 'state':
        if (event.state.status === 'starting') this.#boot = newBoot(this.#boot.number + 1)
        if (event.state.status === 'ready') this.#boot.pid = event.state.pid
        this.#enter(stateOf(event.state), event.at)
        return
      case 'ending': {
        const { kind, pid } = event.report
        this.#boot.pid = pid
        this.#boot.isHung = kind === 'hung' || kind === 'unhealthy'
        this.#enter(this.#boot.isHung ? 'hung' : 'restarting', event.at)
        return
      }
      case 'exit': {
        const { pid, code, signal, kind } = event.report
        this.#boot.pid = pid
        this.#boot.exit = kind === 'spawn_failed' ? null : { code, signal }
        return
      }
      case 'diagnosis':
      case 'progress':
        return
    }
  }

  #enter(state: ServeState, at: string): void {
    if (state === this.#state) return
    this.#state = state
    this.#since = at
  }
}

const newBoot = (number: number): Boot => ({ number, pid: null, exit: null, isHung: false })

function stateOf({ status }: ChildState): ServeState {
  switch (status) {
    case 'starting':
      return 'loading'
    case 'ready':
    case 'busy':
    case 'given_up':
      return status
    case 'failed':
    case 'backoff':
    case 'stopping':
    case 'stopped':
      return 'restarting'
  }
}
