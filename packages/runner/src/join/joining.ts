/**
 * Keeps this runner registered with the daemons of a fleet: at its start, every ten seconds, and immediately after the machine slept or
 * was restored from a snapshot.
 *
 * I1  The runner publishes its current address each time. Daemons use an address only after they have reached the runner there.
 * I2  With `--stop-when-alone` it ends its execs after too long without a daemon: by then daemons may have declared it lost.
 */
import { messageOf } from '@breakfall/faults/internal'
import type { RunnerJoin } from '@breakfall/wire'
import { request } from 'undici'
import type { Clock } from '../lib/clock.ts'

export type JoiningParts = {
  /** The daemons, or a balancer in front of them. The next one is asked when one does not answer. */
  readonly urls: readonly string[]
  readonly runnerId: string
  readonly token: () => string
  readonly facts: () => Promise<RunnerJoin>
  readonly clock: Clock
  /** Between two looks at the clock. */
  readonly tickMs?: number | undefined
  readonly onProblem: (line: string) => void
  /** Registered for the first time, or again after it was not. */
  readonly onJoined: (daemon: string) => void
  /** I2: milliseconds, and what to do then. */
  readonly alone?: { readonly afterMs: number; readonly stop: () => void } | undefined
}

type Answer = 'joined' | 'unreachable' | 'refused' | 'away'

export class Joining {
  readonly #parts: JoiningParts
  #at = 0
  readonly #closing = new AbortController()
  #isStopped = false
  #timer: NodeJS.Timeout | undefined
  #sending: Promise<void> = Promise.resolve()
  #nextAt = 0
  #againMs = PAUSE_MS.joined
  #last: Answer | undefined
  #reported: string | undefined
  #heardAt: Times
  #tickedAt: Times

  constructor(parts: JoiningParts) {
    this.#parts = parts
    this.#heardAt = this.#tickedAt = timesOf(parts.clock)
  }

  start(): void {
    this.#timer = setInterval(() => this.#tick(), this.#parts.tickMs ?? TICK_MS)
    this.#timer.unref()
    this.#tick()
  }

  /** Nothing is sent after this. */
  async close(): Promise<void> {
    this.#closing.abort()
    clearInterval(this.#timer)
    await this.#sending
  }

  // ---- details, in the order they are used above ----

  #tick(): void {
    const now = timesOf(this.#parts.clock)
    const hasSlept = Math.abs(now.wall - this.#tickedAt.wall - (now.monotonic - this.#tickedAt.monotonic)) > JUMP_MS
    this.#tickedAt = now
    this.#checkAlone(now)
    if (hasSlept || now.monotonic >= this.#nextAt) this.#send()
  }

  #send(): void {
    this.#nextAt = Number.POSITIVE_INFINITY // until this one is answered
    this.#sending = this.#sending.then(async () => {
      if (this.#closing.signal.aborted) return
      const answer = await this.#register()
      const pauseMs = answer === 'joined' ? this.#againMs : PAUSE_MS[answer]
      this.#nextAt = timesOf(this.#parts.clock).monotonic + pauseMs
      this.#last = answer
    })
  }

  async #register(): Promise<Answer> {
    const { urls, onJoined } = this.#parts
    try {
      const body = JSON.stringify(await this.#parts.facts()) // I1
      for (let tries = 0; tries < urls.length; tries += 1) {
        const daemon = urls[this.#at % urls.length] ?? ''
        const { answer, detail } = await this.#ask(daemon, body)
        if (answer === 'joined' && this.#last !== 'joined') onJoined(daemon)
        if (answer !== 'joined') this.#report(`cannot join at ${daemon}: ${detail}`)
        if (answer !== 'away') return answer
        this.#at += 1
      }
    } catch (error) {
      this.#report(messageOf(error))
    }
    return 'away'
  }

  async #ask(daemon: string, body: string): Promise<{ answer: Answer; detail: string }> {
    const { runnerId, token, clock } = this.#parts
    try {
      const { statusCode, body: answered } = await request(`${daemon.replace(/\/+$/, '')}/v1/runners/${runnerId}`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${token()}`, 'content-type': 'application/json' },
        body,
        headersTimeout: ANSWER_MS,
        bodyTimeout: ANSWER_MS,
        signal: AbortSignal.any([this.#closing.signal, AbortSignal.timeout(ANSWER_MS)]),
      })
      const text = await answered.text()
      if (statusCode === 200) {
        this.#heardAt = timesOf(clock)
        this.#isStopped = false
        this.#reported = undefined
        this.#againMs = againMsIn(text)
        return { answer: 'joined', detail: '' }
      }
      if (statusCode === 202)
        return { answer: 'unreachable', detail: `it cannot reach this runner: ${text.slice(0, 500)}` }
      const detail = statusCode === 401 ? WRONG_TOKEN : `HTTP ${statusCode} ${text.slice(0, 500)}`
      return { answer: statusCode >= 500 ? 'away' : 'refused', detail }
    } catch (error) {
      return { answer: 'away', detail: messageOf(error) }
    }
  }

  /** Reports each problem once, not every few seconds. */
  #report(line: string): void {
    if (this.#reported === line || this.#closing.signal.aborted) return
    this.#reported = line
    this.#parts.onProblem(line)
  }

  /** I2: alone for too long. */
  #checkAlone(now: Times): void {
    const { alone, onProblem } = this.#parts
    if (alone === undefined || this.#isStopped) return
    const aloneMs = Math.max(now.wall - this.#heardAt.wall, now.monotonic - this.#heardAt.monotonic)
    if (aloneMs < alone.afterMs) return
    this.#isStopped = true
    onProblem(`no daemon has answered for ${Math.round(aloneMs / 1000)} s: every exec is ended (--stop-when-alone)`)
    alone.stop()
  }
}

/** What the daemon asks for, within reason. */
function againMsIn(text: string): number {
  const { againMs }: { againMs?: unknown } = { ...JSON.parse(text) }
  return typeof againMs === 'number' ? Math.min(Math.max(againMs, TICK_MS), PAUSE_MS.joined) : PAUSE_MS.joined
}

type Times = { readonly monotonic: number; readonly wall: number }

const timesOf = (clock: Clock): Times => ({ monotonic: clock.monotonicMs(), wall: clock.now() })

const TICK_MS = 500
const JUMP_MS = 2_000
const ANSWER_MS = 10_000 // the daemon calls back before it answers
/** Until the next registration. */
const PAUSE_MS: Readonly<Record<Answer, number>> = { joined: 10_000, unreachable: 2_000, refused: 10_000, away: 1_000 }

const WRONG_TOKEN =
  'the daemon does not know its token. Enroll it with a code of "breakfall fleet enroll" (--enroll CODE), or give it the key of the fleet (--fleet-key-file FILE)'
