/**
 * The simulated network: requests to servers by their origin, and answers that stream back in pieces. Every message takes a while, and
 * may be lost, late, or the last one of its connection.
 *
 * I1  What happens to a message depends on the seed, its channel and its number there, and on nothing else: taking one fault out of
 *     a plan changes no other message.
 * I2  Pieces of one answer arrive in their order.
 * I3  What arrives at a dead process is dropped; a frozen process gets it late.
 * I4  A late request that is held for the worst moment is released when that moment comes, and at its time at the latest.
 */
import { here, type Process, type World } from '../host/time.ts'

export type Exchange = {
  readonly from: Process
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly sentAt: number
}

/** What a server has just done to a box: the moments after which a late request hurts most. */
export type Moment = 'owned' | 'burned' | 'read' | 'removed'

/** A server's end of an exchange. After the client is gone, writing does nothing. */
export type Answering = {
  readonly isGone: boolean
  onGone(heard: () => void): void
  head(status: number, headers?: Readonly<Record<string, string>>): void
  write(text: string): void
  end(text?: string): void
  /** Breaks the connection off. */
  reset(): void
}

export type Server = {
  readonly process: Process
  serve(exchange: Exchange, answer: Answering): void
}

/** The client's end. Exactly one of `end` and `broken` comes, and nothing after it. */
export type Receiving = {
  connected?(): void
  head(status: number, headers: Readonly<Record<string, string>>): void
  data(chunk: Buffer): void
  end(): void
  broken(code: string, message: string): void
}

/** What becomes of one request. */
export type Fate = {
  /** `refuse`: no connection. `request`: reset before the server has seen it. `answer`: the server acts, the answer is lost. */
  readonly loses?: 'connection' | 'request' | 'answer' | undefined
  /** The client hears of a reset at once, and the request arrives this much later all the same. */
  readonly lateMs?: number | undefined
  /** The late request is held until this has happened to its box. */
  readonly heldUntil?: Moment | undefined
  /** No reset comes: the client waits for the answer to its late request. */
  readonly isSilent?: boolean | undefined
  /** The answer breaks off after so many bytes. */
  readonly cutAfter?: number | undefined
}

/** How a way is blocked: packets are refused, or swallowed without an answer. */
export type Block = 'refuse' | 'swallow' | undefined

export type Weather = {
  fateOf(channel: string, nr: number, exchange: Exchange): Fate
  delayMs(channel: string, nr: number, piece: number): number
  blocked(from: Process, origin: string): Block
}

export class Network {
  readonly #world: World
  readonly #weather: Weather
  readonly #servers = new Map<string, Server>()
  readonly #numbers = new Map<string, number>()
  /** When the last request left each process for each origin, by `process>origin`. */
  readonly lastSentAt = new Map<string, number>()
  /** When each process last found that origin there: it answered, or accepts connections. */
  readonly lastFoundAt = new Map<string, number>()
  readonly observers: NetworkObserver[] = []
  readonly #held: { readonly box: string; readonly moment: Moment; release(): void }[] = []

  constructor(world: World, weather: Weather) {
    this.#world = world
    this.#weather = weather
  }

  listen(origin: string, server: Server): void {
    this.#servers.set(origin, server)
  }

  close(origin: string): void {
    this.#servers.delete(origin)
  }

  /** Whether a connection would be accepted. Undefined: no answer at all. */
  accepts(origin: string): boolean | undefined {
    const block = this.#weather.blocked(here(), origin)
    if (block === 'swallow') return undefined
    const server = this.#servers.get(origin)
    if (server !== undefined && server.process.frozenUntil > this.#world.now) return true // its kernel accepts
    const isAccepted = block === undefined && server !== undefined && !server.process.isDead
    if (isAccepted) this.lastFoundAt.set(`${here().name}>${origin}`, this.#world.now)
    return isAccepted
  }

  /** Returns how to give the request up. */
  request(origin: string, sent: Omit<Exchange, 'from' | 'sentAt'>, to: Receiving): () => void {
    const from = here()
    const exchange: Exchange = { ...sent, from, sentAt: this.#world.now }
    for (const { sent: heard } of this.observers) heard?.(origin, exchange)
    const channel = `${from.name}>${origin}`
    const nr = (this.#numbers.get(channel) ?? 0) + 1
    this.#numbers.set(channel, nr)
    this.lastSentAt.set(channel, this.#world.now)
    const label = `${sent.method} ${sent.path.split('?')[0]}`
    const hold = (moment: Moment, release: () => void): void =>
      void this.#held.push({ box: boxIn(sent.path), moment, release })
    const arrived = (): void => {
      for (const { arrived: heard } of this.observers) heard?.(origin, exchange)
    }
    const answered = (): void => {
      this.lastFoundAt.set(channel, this.#world.now)
      for (const { answered: heard } of this.observers) heard?.(exchange)
    }
    return new Connection(this.#world, this.#weather, this.#servers, {
      origin,
      exchange,
      channel,
      nr,
      label,
      to,
      hold,
      arrived,
      answered,
    }).open()
  }

  /** I4 */
  happened(moment: Moment, box: string): void {
    for (const held of this.#held.filter((one) => one.moment === moment && one.box === box)) {
      this.#held.splice(this.#held.indexOf(held), 1)
      held.release()
    }
  }
}

export type NetworkObserver = {
  /** A request leaves its process, whatever becomes of it. */
  readonly sent?: (origin: string, exchange: Exchange) => void
  /** It has reached a server, which serves it next. */
  readonly arrived?: (origin: string, exchange: Exchange) => void
  /** Its sender has the head of the answer. */
  readonly answered?: (exchange: Exchange) => void
}

/** The box that a request to a runner is about. */
export const boxIn = (path: string): string => /^\/v1\/[^/]+\/boxes\/([^/?]+)/.exec(path)?.[1] ?? ''

// ---- details ----

type Given = {
  readonly origin: string
  readonly exchange: Exchange
  readonly channel: string
  readonly nr: number
  readonly label: string
  readonly to: Receiving
  readonly hold: (moment: Moment, release: () => void) => void
  readonly arrived: () => void
  readonly answered: () => void
}

class Connection implements Answering {
  readonly #world: World
  readonly #weather: Weather
  readonly #servers: ReadonlyMap<string, Server>
  readonly #given: Given
  readonly #fate: Fate
  readonly #listeners: (() => void)[] = []
  #pieces = 0
  #lastAt = 0
  #bytesLeft: number
  /** The client has heard the end, or wants to hear nothing more. */
  #isOver = false
  #isAnswered = false
  isGone = false

  constructor(world: World, weather: Weather, servers: ReadonlyMap<string, Server>, given: Given) {
    this.#world = world
    this.#weather = weather
    this.#servers = servers
    this.#given = given
    this.#fate = weather.fateOf(given.channel, given.nr, given.exchange)
    this.#bytesLeft = this.#fate.cutAfter ?? Number.POSITIVE_INFINITY
  }

  open(): () => void {
    const { origin, exchange, label, to } = this.#given
    const block = this.#weather.blocked(exchange.from, origin)
    if (block === 'swallow') return () => undefined // not even a reset comes back
    const refuse = (): void => this.#breakOff('ECONNREFUSED', `connect ECONNREFUSED ${origin}`)
    if (block === 'refuse' || this.#fate.loses === 'connection') {
      this.#toClient('refused', refuse)
      return () => this.#leave()
    }
    const { lateMs = 0, isSilent = false } = this.#fate
    if (isSilent) this.#toClient('connected', () => to.connected?.())
    else if (lateMs > 0 || this.#fate.loses === 'request') this.#toClient('reset', () => this.#reset())
    if (this.#fate.loses === 'request') return () => this.#leave()
    let hasArrived = false
    const arrive = (): void => {
      hasArrived = true
      const server = this.#servers.get(origin)
      if (server === undefined || server.process.isDead) return this.#toClient('refused', refuse)
      if (!isSilent) this.#toClient('connected', () => to.connected?.())
      // I3: waits while it is frozen
      this.#world.after(0, server.process, label, () => {
        this.#given.arrived()
        server.serve(exchange, this)
      })
    }
    const latest = this.#world.after(this.#delay() + lateMs, this.#world.outside, `${label} arrives`, arrive)
    if (this.#fate.heldUntil !== undefined)
      this.#given.hold(this.#fate.heldUntil, () => {
        if (hasArrived) return
        latest.cancel()
        this.#world.after(this.#delay(), this.#world.outside, `${label} arrives`, arrive)
      })
    return () => this.#leave()
  }

  onGone(heard: () => void): void {
    if (this.isGone) heard()
    else this.#listeners.push(heard)
  }

  head(status: number, headers: Readonly<Record<string, string>> = {}): void {
    if (this.#isAnswered) return
    this.#isAnswered = true
    if (this.#fate.loses === 'answer') return this.#toClient('reset', () => this.#reset())
    this.#toClient(`head ${status}`, () => {
      this.#given.answered()
      this.#given.to.head(status, headers)
    })
  }

  write(text: string): void {
    if (this.#fate.loses === 'answer') return
    const bytes = Buffer.from(text)
    const kept = bytes.subarray(0, Math.max(0, this.#bytesLeft))
    this.#bytesLeft -= bytes.length
    if (kept.length > 0) this.#toClient('data', () => this.#given.to.data(kept))
    if (this.#bytesLeft < 0) this.reset()
  }

  end(text?: string): void {
    if (text !== undefined && text !== '') this.write(text)
    if (this.#fate.loses === 'answer' || this.#bytesLeft < 0) return
    this.#toClient('end', () => {
      this.#isOver = true
      this.#given.to.end()
    })
  }

  reset(): void {
    this.#toClient('reset', () => this.#reset())
  }

  /** I2 */
  #toClient(what: string, run: () => void): void {
    this.#pieces += 1
    this.#lastAt = Math.max(this.#lastAt, this.#world.now + this.#delay())
    this.#world.after(
      this.#lastAt - this.#world.now,
      this.#given.exchange.from,
      `${this.#given.label}: ${what}`,
      () => {
        if (!this.#isOver) run()
      },
    )
  }

  #delay(): number {
    return this.#weather.delayMs(this.#given.channel, this.#given.nr, this.#pieces)
  }

  #reset(): void {
    this.#breakOff('UND_ERR_SOCKET', 'other side closed')
  }

  #breakOff(code: string, message: string): void {
    this.#isOver = true
    this.#given.to.broken(code, message)
  }

  /** The client hangs up; the server hears of it in a while. */
  #leave(): void {
    if (this.#isOver) return
    this.#isOver = true
    const server = this.#servers.get(this.#given.origin)
    if (server === undefined) return
    this.#world.after(this.#delay(), server.process, `${this.#given.label}: gone`, () => {
      this.isGone = true
      for (const heard of this.#listeners) heard()
    })
  }
}

let network: Network | undefined

export const setNetwork = (next: Network | undefined): void => {
  network = next
}

/** For the doors, which code finds by importing `undici` or `node:net`. */
export function theNetwork(): Network {
  if (network === undefined) throw new Error('There is no network here.')
  return network
}
