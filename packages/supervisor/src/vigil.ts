/**
 * Watches over one run: is it ready, is it alive, does it get on? Says once that it serves, and once why it should be ended.
 *
 * I1  Started, ready and alive are three questions with three clocks: a slow start is no dead child.
 * I2  All timers end with the run.
 * I3  Silence is counted in ticks that we lived through ourselves: a sleep of ours is one tick.
 */
import { pause } from './clock.ts'
import type { InFlight } from './in-flight.ts'
import { ask, PROBE_DEFAULTS } from './probes.ts'
import type { Leader } from './process-table.ts'
import type { EndReason } from './report.ts'
import type { Alive, Ready, ResolvedSpec } from './spec.ts'

export type Watched = {
  readonly spec: ResolvedSpec
  readonly ready: Ready
  readonly alive: Alive | undefined
  readonly inFlight: InFlight
  /** Undefined where it has gone. */
  readonly leader: () => Leader | undefined
  /** Fires when the run ends or is being ended. */
  readonly ended: AbortSignal
  readonly onReady: () => void
  readonly onFound: (reason: EndReason, detail: string | null) => void
  /** Now and then, while it lives. */
  readonly onTick: () => void
}

const TICKS = 8 // limits are measured in eighths
const SETTLED_MS = 1_000 // a wrapper that moves its program elsewhere (a control group, a namespace) has done so by then

export class Vigil {
  readonly #watched: Watched
  #readyAtMs: number | undefined
  #silentTicks = 0
  #lastAnswer: string | null = null

  constructor(watched: Watched) {
    this.#watched = watched
  }

  get readyAtMs(): number | undefined {
    return this.#readyAtMs
  }

  begin(): void {
    const { ready, ended } = this.#watched
    if (ended.aborted) return
    this.later(SETTLED_MS, this.#watched.onTick)
    if (ready.kind === 'spawned') {
      this.serves()
      return
    }
    this.#watchStart(0)
    if (ready.kind === 'http' || ready.kind === 'tcp' || ready.kind === 'probe') void this.#askUntilReady(ready)
  }

  /** It has shown a sign of life. */
  sign(): void {
    this.#silentTicks = 0
  }

  /** It can serve. */
  serves(): void {
    const { ended, spec, alive } = this.#watched
    if (this.#readyAtMs !== undefined || ended.aborted || this.#watched.leader() === undefined) return
    this.#readyAtMs = spec.clock.now()
    this.#watched.onReady()
    this.#watchProgress()
    if (alive !== undefined) void this.#askWhetherAlive(alive)
  }

  /** One probe out of turn. A port that refuses, or belongs to another process by now, means the child has stopped serving. */
  async checkListening(): Promise<void> {
    const { ready, ended, spec } = this.#watched
    const leader = this.#watched.leader()
    if ((ready.kind !== 'http' && ready.kind !== 'tcp') || leader === undefined || ended.aborted) return
    const prove = ready.prove !== false
    const answer = await ask(ready, prove, { leader, signal: ended, clock: spec.clock, wantsSign: true })
    if (answer.isElsewhere && !ended.aborted) this.#watched.onFound('unhealthy', answer.why)
  }

  /** I2 */
  later(ms: number, then: () => void): void {
    const { ended, spec } = this.#watched
    if (ended.aborted) return
    const cancel = spec.clock.after(ms, () => {
      ended.removeEventListener('abort', cancel)
      then()
    })
    ended.addEventListener('abort', cancel, { once: true })
  }

  // ---- details, in the order they are used above ----

  #watchStart(livedMs: number): void {
    const { limits } = this.#watched.spec
    const tickMs = Math.max(1, Math.ceil(limits.startMsMax / TICKS))
    this.later(tickMs, () => {
      if (this.#readyAtMs !== undefined) return
      this.#silentTicks += 1 // I3
      const isOver = this.#silentTicks > TICKS || livedMs + tickMs >= limits.startTotalMsMax
      if (isOver) this.#watched.onFound('start_limit', this.#lastAnswer)
      else this.#watchStart(livedMs + tickMs)
    })
  }

  async #askUntilReady(question: Extract<Ready, { kind: 'http' | 'tcp' | 'probe' }>): Promise<void> {
    const { ended, spec } = this.#watched
    const prove = question.kind !== 'probe' && question.prove !== false
    while (!ended.aborted && this.#readyAtMs === undefined) {
      const leader = this.#watched.leader()
      if (leader === undefined) return
      const wantsSign = this.#silentTicks >= TICKS / 2
      const answer = await ask(question, prove, { leader, signal: ended, clock: spec.clock, wantsSign })
      if (ended.aborted) return
      if (answer.ok) return this.serves()
      if (answer.isSign) this.sign() // a server that says that it is still loading gets on
      this.#lastAnswer = answer.why
      await pause(spec.clock, question.everyMs ?? PROBE_DEFAULTS.readyEveryMs, ended)
    }
  }

  async #askWhetherAlive(question: Alive): Promise<void> {
    const { ended, spec } = this.#watched
    const failuresMax = question.failuresMax ?? PROBE_DEFAULTS.failuresMax
    for (let failures = 0; failures < failuresMax;) {
      await pause(spec.clock, question.everyMs ?? PROBE_DEFAULTS.aliveEveryMs, ended)
      const leader = this.#watched.leader()
      if (ended.aborted || leader === undefined) return
      const answer = await ask(question, false, { leader, signal: ended, clock: spec.clock, wantsSign: false })
      if (ended.aborted) return
      failures = answer.ok ? 0 : failures + 1
      this.#lastAnswer = answer.why
    }
    this.#watched.onFound('unhealthy', this.#lastAnswer)
  }

  #watchProgress(): void {
    const { spec, inFlight } = this.#watched
    this.later(Math.max(1, Math.floor(spec.limits.hungMs / TICKS)), () => {
      this.#watched.onTick()
      const silent = inFlight.tick(TICKS) // I3
      if (silent !== undefined) this.#watched.onFound('no_progress', `request ${silent}`)
      else this.#watchProgress()
    })
  }
}
