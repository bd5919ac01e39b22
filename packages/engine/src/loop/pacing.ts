/**
 * Keeps many turns from acting at the same moment: parked turns that wait for the same thing, and turns that a starting daemon
 * recovers.
 *
 * I1  However many turns wait for the same thing, it is probed once in a while, and all of them share the result.
 * I2  However many turns are ready at the same moment, a few start at once and the rest one by one: a service that
 *     has just recovered is not overwhelmed. Daemons that share a store share that pace.
 */
import type { Clock } from '../clock.ts'

type PacingParts = {
  readonly probeMs: number
  readonly clock: Pick<Clock, 'elapsed'>
  readonly daemons?: () => number
}

export class Pacing {
  readonly #probeMs: number
  readonly #daemons: () => number
  readonly #clock: Pick<Clock, 'elapsed'>
  readonly #probes = new Map<string, Probe>()
  readonly #fresh = new Map<string, FreshProbe>()
  #freeAt = Number.NEGATIVE_INFINITY

  /** `probeMs`: how long a probe's result is valid for all callers; shorter than between two probes of a turn. `daemons`: how many share the pace. */
  constructor({ probeMs, clock, daemons = () => 1 }: PacingParts) {
    this.#clock = clock
    this.#probeMs = probeMs
    this.#daemons = daemons
  }

  /**
   * The result of the last probe of `target`, or of a new one if that is too old. A probe belongs to no single caller: its own signal
   * aborts when the last of those who wait for it has gone.
   */
  probe(target: string, signal: AbortSignal, run: (signal: AbortSignal) => Promise<boolean>): Promise<boolean> {
    const now = this.#clock.elapsed()
    const last = this.#probes.get(target)
    if (last !== undefined && now - last.at < this.#probeMs) return this.#joined(target, last, signal) // I1
    const over = new AbortController()
    const probe: Probe = { at: now, isReady: run(over.signal), over, waiting: 0 }
    this.#probes.set(target, probe)
    return this.#joined(target, probe, signal)
  }

  #joined(target: string, probe: Probe, signal: AbortSignal): Promise<boolean> {
    probe.waiting += 1
    const leave = (): void => {
      probe.waiting -= 1
      if (probe.waiting > 0) return
      probe.over.abort()
      if (this.#probes.get(target) === probe) this.#probes.delete(target) // it has no result
    }
    signal.addEventListener('abort', leave, { once: true })
    const stay = (): void => signal.removeEventListener('abort', leave)
    probe.isReady.then(stay, stay)
    return probe.isReady
  }

  /**
   * The result of a probe that has not started yet, for turns that were just woken: an older result may predate that. Callers
   * that arrive during a probe share the next one.
   */
  freshProbe(target: string, run: () => Promise<boolean>): Promise<boolean> {
    const running = this.#fresh.get(target)
    if (running === undefined) return this.#start(target, run())
    running.next ??= running.isReady.then(run, run)
    return running.next
  }

  #start(target: string, isReady: Promise<boolean>): Promise<boolean> {
    const running: FreshProbe = { isReady, next: undefined }
    this.#fresh.set(target, running)
    const settle = (): void => {
      this.#fresh.delete(target)
      if (running.next !== undefined) this.#start(target, running.next).catch(() => undefined) // its callers have it, too
    }
    isReady.then(settle, settle)
    return isReady
  }

  /** How long to wait before starting: 0 for a turn that comes alone or with a few others. */
  startDelayMs(): number {
    const now = this.#clock.elapsed()
    const daemons = Math.max(this.#daemons(), 1)
    const gapMs = Math.min(GAP_MS * daemons, GAP_MS_MAX)
    const atOnce = Math.max(Math.floor(AT_ONCE / daemons), 1)
    const at = Math.max(now, this.#freeAt - (atOnce - 1) * gapMs)
    this.#freeAt = Math.max(now, this.#freeAt) + gapMs // I2
    return at - now
  }
}

type Probe = {
  readonly at: number
  readonly isReady: Promise<boolean>
  readonly over: AbortController
  waiting: number
}

type FreshProbe = { readonly isReady: Promise<boolean>; next: Promise<boolean> | undefined }

const AT_ONCE = 10 // one person's turns start without a wait, and a model server can take that many
const GAP_MS = 25 // forty a second: a thousand turns are running again within half a minute
const GAP_MS_MAX = 200 // five a second, however many daemons there are: each recovers its own turns in reasonable time
