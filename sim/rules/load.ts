/**
 * L3  A fleet in which nothing happens asks little: the statements of a virtual minute without an event, a fault or a start of a daemon
 *     stay under a number for each daemon, each turn that waits, each reader and each request of a client, and it asks the model nothing.
 */
import { MODEL } from '../world/weather.ts'
import type { Facts } from './facts.ts'

type Counts = { readonly daemons: number; readonly turns: number; readonly readers: number }

export class Load {
  readonly #facts: Facts
  #from = 0
  #statements = 0
  #requests = 0
  #asked = 0
  #lastEventAt = 0
  #lastModelAt = 0
  readonly #count: () => Counts

  constructor(facts: Facts, count: () => Counts) {
    this.#facts = facts
    this.#count = count
    facts.parts.network.observers.push({
      sent: (origin) => {
        this.#requests += 1
        if (origin === MODEL) this.#lastModelAt = facts.parts.world.now
      },
    })
    this.#begin()
  }

  /** A client asks for something. */
  asked(): void {
    this.#asked += 1
  }

  /** Something happened that is work. */
  busy(): void {
    this.#lastEventAt = this.#facts.parts.world.now
  }

  // ---- details ----

  #begin(): void {
    const { world, sharing } = this.#facts.parts
    this.#from = world.now
    this.#statements = sharing.statements
    this.#requests = 0
    this.#asked = 0
    world.after(MINUTE_MS, world.outside, 'a minute', () => {
      this.#judge()
      this.#begin()
    })
  }

  #judge(): void {
    const { plan, sharing } = this.#facts.parts
    const isCalm = this.#from > plan.calmAt + plan.absenceMs + MINUTE_MS
    if (!isCalm || this.#lastEventAt >= this.#from) return
    this.#facts.reach('a quiet minute')
    const { daemons, turns, readers } = this.#count()
    const statements = sharing.statements - this.#statements
    const max =
      daemons * STATEMENTS.daemon +
      turns * STATEMENTS.turn +
      readers * STATEMENTS.reader +
      this.#asked * STATEMENTS.request
    if (statements > max || this.#requests > REQUESTS.idle + turns * REQUESTS.turn || this.#lastModelAt >= this.#from)
      this.#facts.broken(
        'L3 a quiet fleet asks little',
        `${statements} statements, ${this.#requests} requests in a minute`,
      )
  }
}

const MINUTE_MS = 60_000

/** Requests to the runner in a minute: boxes are released, and turns that wait for it look. */
const REQUESTS = { idle: 10, turn: 20 } as const

/** Statements in a minute. */
const STATEMENTS = { daemon: 260, turn: 30, reader: 70, request: 6 } as const
