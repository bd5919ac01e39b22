/** Metrics of turns that are under way: how long the first word takes, what waits for what, and how much of their budgets is left. */
import { LIMITS, type Policy } from '@breakfall/faults'
import { isTerminal, type SessionEvent } from '@breakfall/wire'
import { within } from '@breakfall/faults/internal'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Journal, TurnFold } from '@breakfall/engine'

/** A turn that this daemon works on, and the policy that limits it. */
export type DrivenTurn = {
  readonly turn: Pick<TurnFold, 'step' | 'stepsFrom' | 'answer'>
  readonly policy: Policy
}

export type TurnGauges = {
  readonly drivenTurns: () => Iterable<DrivenTurn>
  /** The categories that turns in the store are parked on, one per turn. Undefined if the store does not answer. */
  readonly parkedOn: () => Promise<readonly string[] | undefined>
}

/** Returns what to call with each event. */
export function turnMetrics(gauges: TurnGauges, registers: Registry[]): (event: SessionEvent) => void {
  const firstWord = new Histogram({
    name: 'breakfall_first_token_seconds',
    help: 'Time from the start of a step to the first token of its answer, retries included',
    buckets: [0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300],
    registers,
  })
  const survived = new Counter({
    name: 'breakfall_faults_survived_total',
    help: 'Faults of turns that ended well',
    registers,
  })
  const lost = new Counter({
    name: 'breakfall_faults_lost_total',
    help: 'Faults that ended a turn, by category',
    labelNames: ['category'],
    registers,
  })
  parkedGauge(gauges, registers)
  budgetGauge(gauges, registers)
  const steps = new FirstWords((seconds) => firstWord.observe(seconds))
  return (event) => {
    steps.event(event)
    if (event.type === 'turn-end') survived.inc(event.faultsSurvived)
    if (event.type === 'turn-error' && event.category !== 'cancelled') lost.inc({ category: event.category })
  }
}

/** The share of each budget that a turn has left, from 0 to 1. */
export function budgetsLeft({ turn, policy }: DrivenTurn): Readonly<Record<Budget, number>> {
  const { failures, freeFailures, waitedMs, parks, parkedMs } = turn.answer.budget
  return {
    failures: left(policy.patienceMs > 0 ? failures - freeFailures : failures, policy.failuresMax),
    waiting: left(waitedMs, policy.waitMsMax),
    parks: left(parks, LIMITS.parksMax),
    parked_time: left(parkedMs, policy.parkMsMax),
    steps: left(turn.step - turn.stepsFrom, policy.stepsMax),
  }
}

/** For `/metrics`, which answers even while the store is unreachable. */
export async function parkedCategories(store: Pick<Journal, 'listSessions'>): Promise<readonly string[] | undefined> {
  try {
    const page = await within(store.listSessions({ states: ['parked', 'needs'], limit: PARKED_MAX }), PARKED_MS)
    return page?.rows.flatMap(({ turn }) => (turn?.parked == null ? [] : [turn.parked.category]))
  } catch {
    return undefined // counted again at the next request
  }
}

const PARKED_MAX = 10_000 // more would need a separate query
const PARKED_MS = 500 // an unreachable store fails only after ten seconds, and a scraper does not wait that long

// ---- details, in the order they are used above ----

export const BUDGETS = ['failures', 'waiting', 'parks', 'parked_time', 'steps'] as const
type Budget = (typeof BUDGETS)[number]

const left = (used: number, max: number): number => (max <= 0 ? 1 : Math.min(1, Math.max(0, 1 - used / max)))

function parkedGauge({ parkedOn }: TurnGauges, registers: Registry[]): void {
  new Gauge({
    name: 'breakfall_turns_parked',
    help: 'Parked turns in the store, by category. Daemons that share a store report the same numbers',
    labelNames: ['category'],
    registers,
    async collect() {
      const categories = await parkedOn()
      if (categories === undefined) return // the last numbers stay
      this.reset()
      for (const category of categories) this.inc({ category })
    },
  })
}

function budgetGauge({ drivenTurns }: TurnGauges, registers: Registry[]): void {
  new Gauge({
    name: 'breakfall_turn_budget_left_ratio',
    help: 'The smallest share of a budget that any turn of this daemon has left: 1 = unused, 0 = spent',
    labelNames: ['budget'],
    registers,
    collect() {
      const all = Array.from(drivenTurns(), budgetsLeft)
      for (const budget of BUDGETS) this.set({ budget }, Math.min(1, ...all.map((shares) => shares[budget])))
    },
  })
}

/** Measures from `step-start` to the first event that shows a part of the answer. One entry per turn that waits for its first word. */
class FirstWords {
  readonly #startedAt = new Map<string, number>()
  readonly #observe: (seconds: number) => void

  constructor(observe: (seconds: number) => void) {
    this.#observe = observe
  }

  event(event: SessionEvent): void {
    const { turnId, type } = event
    if (type === 'step-start') this.#startedAt.set(turnId, Date.parse(event.at))
    else if (ANSWERS.has(type)) this.#first(turnId, Date.parse(event.at))
    else if (type === 'parked' || isTerminal(event)) this.#startedAt.delete(turnId) // time spent parked does not count
  }

  #first(turnId: string, at: number): void {
    const startedAt = this.#startedAt.get(turnId)
    if (startedAt === undefined) return
    this.#startedAt.delete(turnId)
    this.#observe(Math.max(0, at - startedAt) / 1000)
  }
}

const ANSWERS: ReadonlySet<string> = new Set<SessionEvent['type']>([
  'text-delta',
  'reasoning-delta',
  'tool-draft',
  'tool-call',
])
