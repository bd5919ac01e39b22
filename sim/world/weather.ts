/** What happens to messages. Each fate follows from the seed, the channel and the message's number, and from what is broken right now. */
import type { Plan, PlannedMessage } from '../plan.ts'
import { Random } from '../host/random.ts'
import type { Process, World } from '../host/time.ts'
import type { Block, Exchange, Fate, Moment, Weather } from './network.ts'
import type { StatementFate, StoreWeather } from './store.ts'

export const RUNNER = 'http://runner:7000'
export const MODEL = 'http://model:8080'

/** A request that waits longer in a network is lost. */
const HELD_MS_MAX = 120_000

/** Every message of an even plan. */
const EVEN_MS = 2

/** A share of all runs of so many requests is a burst. Rates are multiplied, so that they stay about the same in all. */
const BURST = 12
const BURSTS = 0.25
const IN_BURST = 3
const BETWEEN = 0.3
const RATE_MAX = 0.9

/** Answers that come in pieces. */
const STREAMED = /\/(?:events|files)\b/

/** What a late request waits for; a kind listed twice is drawn twice as often. */
const OF_FILES: readonly Moment[] = ['read', 'read', 'owned', 'removed']
const OF_COMMANDS: readonly Moment[] = ['owned', 'owned', 'owned', 'burned', 'burned', 'burned', 'removed']

/** A request by what it does, and not by whose box it is about: `PUT files`, `POST kill`. */
const kindOf = ({ method, path }: Exchange): string =>
  `${method} ${
    path
      .split('?')[0]
      ?.split('/')
      .slice(5)
      .findLast((part) => VERBS.has(part)) ?? 'box'
  }`
const VERBS: ReadonlySet<string> = new Set([
  'exec',
  'execs',
  'events',
  'kill',
  'wait',
  'files',
  'owner',
  'start',
  'stop',
])

function momentOf(path: string, roll: number): Moment | undefined {
  const moments = path.includes('/files/') ? OF_FILES : OF_COMMANDS
  return moments[Math.floor(roll * moments.length)]
}

export class Skies implements Weather, StoreWeather {
  readonly #world: World
  readonly #plan: Plan
  /** Until when each way is blocked. */
  readonly partitioned = new Map<string, number>()
  readonly cutFromRunner = new Map<string, number>()
  databaseDownUntil = 0
  modelDownUntil = 0
  modelHoleUntil = 0
  /** How many requests of each kind there were. */
  readonly #counts = new Map<string, number>()
  /** The requests that were lost, late or cut. */
  readonly fates: PlannedMessage[] = []
  #others = 0

  constructor(world: World, plan: Plan) {
    this.#world = world
    this.#plan = plan
  }

  /** How many messages were lost, late or cut. */
  get broken(): number {
    return this.fates.length + this.#others
  }

  fateOf(channel: string, nr: number, exchange: Exchange): Fate {
    const request = kindOf(exchange)
    const count = (this.#counts.get(request) ?? 0) + 1
    this.#counts.set(request, count)
    const planned = this.#plan.messages.find((message) => message.request === request && message.nr === count)
    const fate = planned?.fate ?? this.#fateOf(channel, nr, exchange)
    if (Object.keys(fate).length > 0) this.fates.push({ request, nr: count, fate })
    return fate
  }

  #fateOf(channel: string, nr: number, { method, path }: Exchange): Fate {
    if (this.#isCalm || !channel.includes(RUNNER)) return {}
    const { lostRequest, lostAnswer, lateRequest, silentRequest, cutStream } = this.#ratesAt(channel, nr)
    const dice = this.#dice('fate', channel, nr)
    const [request, answer, late, cut, how] = [dice.next(), dice.next(), dice.next(), dice.next(), dice.next()]
    if (request < lostRequest) return { loses: how < 0.5 ? 'connection' : 'request' }
    if (method !== 'GET' && late < lateRequest) {
      // Half of them wait for the moment that hurts most.
      if (request * 2 < 1 + lostRequest) return { lateMs: Math.round(200 * 300 ** how) }
      return { lateMs: HELD_MS_MAX, heldUntil: momentOf(path, how) }
    }
    if (method !== 'GET' && cut < silentRequest) return { lateMs: HELD_MS_MAX, heldUntil: 'owned', isSilent: true }
    if (answer < lostAnswer && method !== 'GET') return { loses: 'answer' }
    return method === 'GET' && STREAMED.test(path) && cut < cutStream ? { cutAfter: Math.floor(how * 600) } : {}
  }

  /** Networks fail in bursts: then a repeated request breaks like the first one. */
  #ratesAt(
    channel: string,
    nr: number,
  ): Pick<Plan['rates'], 'lostRequest' | 'lostAnswer' | 'lateRequest' | 'silentRequest' | 'cutStream'> {
    const isBurst = this.#dice('burst', channel, Math.floor(nr / BURST)).chance(BURSTS)
    const { lostRequest, lostAnswer, lateRequest, silentRequest, cutStream } = this.#plan.rates
    const now = (rate: number): number => Math.min(RATE_MAX, rate * (isBurst ? IN_BURST : BETWEEN))
    return {
      lostRequest: now(lostRequest),
      lostAnswer: now(lostAnswer),
      lateRequest: now(lateRequest),
      silentRequest: now(silentRequest),
      cutStream: now(cutStream),
    }
  }

  delayMs(channel: string, nr: number, piece: number): number {
    if (this.#plan.isEven) return EVEN_MS
    const roll = this.#dice('delay', channel, nr, piece).next()
    return roll < 0.9 || this.#isCalm ? 1 + Math.floor(roll * 4) : Math.floor((roll - 0.9) * 3_000)
  }

  blocked(from: Process, origin: string): Block {
    const { now } = this.#world
    const daemon = from.name.split('.')[0] ?? ''
    if (origin === RUNNER && (this.cutFromRunner.get(daemon) ?? 0) > now) return 'swallow'
    if (origin === MODEL && this.modelHoleUntil > now) return 'swallow'
    return origin === MODEL && this.modelDownUntil > now ? 'refuse' : undefined
  }

  statement(process: Process, nr: number): StatementFate {
    const fate = this.#statement(process, nr)
    if (fate.loses !== undefined) this.#others += 1
    return fate
  }

  #statement(process: Process, nr: number): StatementFate {
    const { lostStatement, lostStatementAnswer } = this.#plan.rates
    const dice = this.#dice('statement', nr)
    const { isEven, isShared } = this.#plan
    const delayMs = isEven ? EVEN_MS : 1 + Math.floor(dice.next() * 4)
    if (!isShared) return { delayMs }
    const { now } = this.#world
    const daemon = process.name.split('.')[0] ?? ''
    if (this.databaseDownUntil > now || (this.partitioned.get(daemon) ?? 0) > now)
      return { loses: dice.chance(0.5) ? 'request' : 'answer', delayMs }
    if (this.#isCalm) return { delayMs }
    if (dice.next() < lostStatement) return { loses: 'request', delayMs }
    if (dice.next() < lostStatementAnswer) return { loses: 'answer', delayMs }
    return { delayMs: !isEven && dice.chance(0.02) ? delayMs + dice.whole(0, 2_000) : delayMs }
  }

  hint(_from: Process, _to: Process, nr: number): readonly number[] {
    const dice = this.#dice('hint', nr)
    if (!this.#isCalm && dice.next() < this.#plan.rates.lostHint) {
      this.#others += 1
      return []
    }
    if (this.#plan.isEven) return [EVEN_MS]
    const ms = 1 + Math.floor(dice.next() * 10)
    return dice.chance(0.05) ? [ms, ms + 500] : [ms]
  }

  get #isCalm(): boolean {
    return this.#world.now >= this.#plan.calmAt
  }

  #dice(...name: readonly (string | number)[]): Random {
    return new Random(this.#plan.seed, ...name)
  }
}
