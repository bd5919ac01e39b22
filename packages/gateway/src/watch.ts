/** What the gateway is doing right now, for a live view: open streams, failures, heals. */
import { type FaultCategory, type FaultReport, redact } from '@breakfall/faults'
import type { RelayEvent, RelayOutcome, RepairNote } from '@breakfall/model/internal'
import type { AgentLoop } from './agent-loop.ts'
import type { UpstreamHealth } from './health.ts'

export type LiveStream = {
  readonly requestId: string
  readonly path: string
  readonly model: string | undefined
  readonly stream: boolean
  readonly startedAt: string
  readonly upstream: string | undefined
  readonly attempt: number
  /** `asking` until something reaches the client; `waiting` between two attempts. */
  readonly state: 'asking' | 'answering' | 'waiting'
  readonly bytes: number
  readonly lastFault: FaultCategory | null
  /** Time of the next attempt, while the stream waits for it. */
  readonly nextAt: string | null
}

/** One thing that happened, newest last in `recent`. */
export type WatchNote = {
  readonly at: string
  readonly requestId: string
  readonly kind: 'fault' | 'healed' | 'lost' | 'refused' | 'repaired' | 'unhealed'
  readonly category: FaultCategory | null
  readonly text: string
}

export type GatewayTotals = {
  readonly requests: number
  readonly attempts: number
  readonly faults: number
  readonly healed: number
  readonly lost: number
  /** Model requests that passed through without being healed. Not counted in `requests`. */
  readonly unhealed: number
  /** Requests whose conversation was repaired, because the upstream refused it, now or in an earlier request. */
  readonly repaired: number
}

export type GatewaySnapshot = {
  readonly at: string
  readonly live: readonly LiveStream[]
  readonly recent: readonly WatchNote[]
  readonly totals: GatewayTotals
  readonly upstreams: readonly UpstreamHealth[]
}

export type GatewayWatch = {
  snapshot(): GatewaySnapshot
  /** Calls back at every change. Returns the function that ends this. */
  subscribe(listener: (note: WatchNote | undefined) => void): () => void
}

const RECENT_MAX = 200

export class Watch implements GatewayWatch {
  readonly #live = new Map<string, MutableStream>()
  readonly #recent: WatchNote[] = []
  readonly #listeners = new Set<(note: WatchNote | undefined) => void>()
  readonly #totals = { requests: 0, attempts: 0, faults: 0, healed: 0, lost: 0, unhealed: 0, repaired: 0 }
  readonly #now: () => number
  readonly #health: () => readonly UpstreamHealth[]

  constructor(now: () => number, health: () => readonly UpstreamHealth[]) {
    this.#now = now
    this.#health = health
  }

  get active(): number {
    return this.#live.size
  }

  snapshot(): GatewaySnapshot {
    return {
      at: this.#time(),
      live: [...this.#live.values()].map((stream) => ({ ...stream })),
      recent: [...this.#recent],
      totals: { ...this.#totals },
      upstreams: this.#health(),
    }
  }

  subscribe(listener: (note: WatchNote | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  started(requestId: string, path: string, model: string | undefined, stream: boolean): void {
    this.#totals.requests++
    this.#live.set(requestId, {
      requestId,
      path,
      model,
      stream,
      startedAt: this.#time(),
      upstream: undefined,
      attempt: 0,
      state: 'asking',
      bytes: 0,
      lastFault: null,
      nextAt: null,
    })
    this.#tell(undefined)
  }

  sent(requestId: string, bytes: number): void {
    const live = this.#live.get(requestId)
    if (live === undefined) return
    live.bytes += bytes
    live.state = 'answering'
  }

  event(requestId: string, event: RelayEvent): void {
    const live = this.#live.get(requestId)
    if (live === undefined) return
    switch (event.type) {
      case 'attempt-start':
        this.#totals.attempts++
        Object.assign(live, { upstream: redact(event.baseUrl), attempt: event.attempt, state: 'asking', nextAt: null })
        this.#tell(undefined)
        break
      case 'attempt-failed':
        this.#failed(live, event)
        break
      case 'healed':
        this.#totals.healed++
        this.#note(requestId, 'healed', null, `complete on attempt ${event.attempt}, by ${event.how}`)
        break
      case 'doubt':
        this.#note(requestId, 'fault', null, DOUBTS[event.reason](event.name ?? ''))
        break
      case 'usage-lost':
        break
      case 'repaired':
        this.repaired(requestId, event)
        break
    }
  }

  ended(requestId: string, outcome: RelayOutcome): void {
    this.#live.delete(requestId)
    const { fault, status, contentSent } = outcome
    if (fault === null || fault.class === 'cancelled') this.#tell(undefined)
    else {
      const isRefusal = !contentSent && fault.status !== undefined && fault.next === 'never'
      if (!isRefusal) this.#totals.lost++
      this.#note(requestId, isRefusal ? 'refused' : 'lost', fault.category, `status ${status}: ${fault.error}`)
    }
  }

  repaired(requestId: string, { cause, place, isKnown }: RepairNote): void {
    this.#totals.repaired++
    const how = isKnown ? 'as in an earlier request' : 'and sent again'
    const advice = 'the agent still has it: rewind or start a new session to end this'
    this.#note(requestId, 'repaired', null, `the conversation, ${how}: ${cause} (${place}); ${advice}`)
  }

  loop(requestId: string, { tool, times }: AgentLoop): void {
    this.#note(requestId, 'fault', null, `${tool} with the same arguments and the same result, ${times} times`)
  }

  unhealed(requestId: string, text: string): void {
    this.#totals.unhealed++
    this.#note(requestId, 'unhealed', null, text)
  }

  #failed(live: MutableStream, event: Extract<RelayEvent, { type: 'attempt-failed' }>): void {
    const { action, delayMs, fault } = event
    const goesOn = action === 'retry' || action === 'resume' || action === 'fallback'
    this.#totals.faults++
    live.lastFault = fault.category
    live.state = goesOn ? 'waiting' : live.state
    live.nextAt = goesOn ? new Date(this.#now() + delayMs).toISOString() : null
    this.#note(live.requestId, 'fault', fault.category, sentence(fault, action, delayMs))
  }

  #note(requestId: string, kind: WatchNote['kind'], category: FaultCategory | null, text: string): void {
    const note: WatchNote = { at: this.#time(), requestId, kind, category, text }
    this.#recent.push(note)
    if (this.#recent.length > RECENT_MAX) this.#recent.shift()
    this.#tell(note)
  }

  #tell(note: WatchNote | undefined): void {
    for (const listener of this.#listeners) listener(note)
  }

  #time(): string {
    return new Date(this.#now()).toISOString()
  }
}

const DOUBTS: Readonly<Record<Extract<RelayEvent, { type: 'doubt' }>['reason'], (name: string) => string>> = {
  empty_answer: () => 'the answer is empty',
  thoughts_only: () => 'the answer is nothing but thoughts',
  leaked_call: (name) =>
    `the model wrote its call of ${name} as text; check the server's tool parser (--jinja, --tool-call-parser)`,
}

type MutableStream = { -readonly [K in keyof LiveStream]: LiveStream[K] }

const sentence = (fault: FaultReport, action: string, delayMs: number): string =>
  `${fault.errorRaw.slice(0, 200)}; ${action}${delayMs > 0 ? ` in ${delayMs} ms` : ''}`
