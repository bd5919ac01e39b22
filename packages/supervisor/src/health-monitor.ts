/**
 * Monitors one run: is it ready, is it alive, does it make progress? Reports once that it is ready, and once why it must be
 * ended.
 *
 * I1  Start, readiness and liveness are separate questions with separate limits: a slow start is not a dead child.
 * I2  All timers end with the run.
 * I3  Silence is counted in ticks during which this process was awake: a suspended laptop costs one tick.
 */
import { pause } from './clock.ts'
import { NO_SUSPICION, observe } from './hang-verdict.ts'
import type { InFlight } from './in-flight.ts'
import { PROBE_DEFAULTS, runProbe } from './probes.ts'
import type { Leader } from './process-table.ts'
import type { EndReason } from './report.ts'
import type { Alive, Ready, ResolvedSpec } from './spec.ts'
import { hasRead, readVitalSigns, type VitalSigns } from './vital-signs.ts'

export type MonitorOptions = {
  readonly spec: ResolvedSpec
  readonly ready: Ready
  readonly alive: Alive | undefined
  readonly inFlight: InFlight
  /** Undefined once the process is gone. */
  readonly leader: () => Leader | undefined
  /** Fires when the run ends or is being ended. */
  readonly ended: AbortSignal
  readonly onReady: () => void
  readonly onFailed: (reason: EndReason, detail: string | null) => void
  /** Called from time to time while the process lives. */
  readonly onTick: () => void
}

const TICKS = 8 // limits are measured in eighths
const SETTLED_MS = 1_000 // by then a wrapper has moved its program to another control group or namespace

export class HealthMonitor {
  readonly #options: MonitorOptions
  #readyAtMs: number | undefined
  #silentTicks = 0
  #hasOutput = false
  #lastResult: string | null = null

  constructor(options: MonitorOptions) {
    this.#options = options
  }

  get readyAtMs(): number | undefined {
    return this.#readyAtMs
  }

  start(): void {
    const { ready, ended } = this.#options
    if (ended.aborted) return
    this.schedule(SETTLED_MS, this.#options.onTick)
    if (ready.kind === 'spawned') {
      this.markReady()
      return
    }
    this.#limitStart(0, undefined)
    if (ready.kind === 'http' || ready.kind === 'tcp' || ready.kind === 'probe') void this.#probeUntilReady(ready)
  }

  /** The child printed or sent something. */
  recordActivity(): void {
    this.#silentTicks = 0
    this.#hasOutput = true
  }

  markReady(): void {
    const { ended, spec, alive } = this.#options
    if (this.#readyAtMs !== undefined || ended.aborted || this.#options.leader() === undefined) return
    this.#readyAtMs = spec.clock.now()
    this.#options.onReady()
    this.#detectHang()
    if (alive !== undefined) void this.#watch(alive)
  }

  /** One probe out of turn. The child serves no more if the port refuses or belongs to another process, or if it was stopped. */
  async checkListening(): Promise<void> {
    const { ready, ended, spec } = this.#options
    const leader = this.#options.leader()
    if ((ready.kind !== 'http' && ready.kind !== 'tcp') || leader === undefined || ended.aborted) return
    const context = { leader, signal: ended, clock: spec.clock, prove: ready.prove !== false, identifyAlways: true }
    const result = await runProbe(ready, context)
    if (ended.aborted) return
    const isStopped = result.answer === 'none' && readVitalSigns(leader)?.isStopped === true
    if (result.isNotListening || isStopped)
      this.#options.onFailed('unhealthy', isStopped ? `${result.why}; it is stopped (SIGSTOP)` : result.why)
  }

  /** Calls back after `ms`, unless the run ends first (I2). */
  schedule(ms: number, then: () => void): void {
    const { ended, spec } = this.#options
    if (ended.aborted) return
    const cancel = spec.clock.after(ms, () => {
      ended.removeEventListener('abort', cancel)
      then()
    })
    ended.addEventListener('abort', cancel, { once: true })
  }

  // ---- details, in the order they are used above ----

  /** A child whose memory or files still move is reading its weights, and no limit ends it. */
  #limitStart(elapsedMs: number, before: VitalSigns | undefined): void {
    const { limits } = this.#options.spec
    const tickMs = Math.max(1, Math.ceil(limits.startMsMax / TICKS))
    this.schedule(tickMs, () => {
      if (this.#readyAtMs !== undefined) return
      const leader = this.#options.leader()
      const vitals = leader === undefined ? undefined : readVitalSigns(leader)
      const isReading = before !== undefined && vitals !== undefined && hasRead(before, vitals)
      this.#silentTicks = isReading ? 0 : this.#silentTicks + 1 // I3: only while we are awake
      const isOver = this.#silentTicks > TICKS || elapsedMs + tickMs >= limits.startTotalMsMax
      if (isOver && !isReading) this.#options.onFailed('start_limit', this.#lastResult)
      else this.#limitStart(elapsedMs + tickMs, vitals)
    })
  }

  async #probeUntilReady(target: Extract<Ready, { kind: 'http' | 'tcp' | 'probe' }>): Promise<void> {
    const { ended, spec } = this.#options
    const prove = target.kind !== 'probe' && target.prove !== false
    while (!ended.aborted && this.#readyAtMs === undefined) {
      const leader = this.#options.leader()
      if (leader === undefined) return
      const identifyAlways = this.#silentTicks >= TICKS / 2
      const result = await runProbe(target, { leader, signal: ended, clock: spec.clock, prove, identifyAlways })
      if (ended.aborted) return
      if (result.ok) return this.markReady()
      if (result.isActivity) this.recordActivity() // a server that answers "still loading" makes progress
      this.#lastResult = result.why
      await pause(spec.clock, target.everyMs ?? PROBE_DEFAULTS.readyEveryMs, ended)
    }
  }

  /** Asks a quiet child how it is: at leisure while it is idle, more often while a request waits for it. */
  async #watch(target: Alive): Promise<void> {
    const { ended, spec, inFlight } = this.#options
    const { quietMs: quietMsMax, stillMs, hungMs } = spec.limits
    const { everyMs = PROBE_DEFAULTS.aliveEveryMs, timeoutMs = PROBE_DEFAULTS.timeoutMs } = target
    const { failuresMax = PROBE_DEFAULTS.failuresMax } = target
    const limits = { stillMs, hungMs, failuresMax, roundMsMax: everyMs + 2 * timeoutMs }
    for (let suspicion = NO_SUSPICION; ;) {
      const pauseMs = inFlight.quietMs === undefined ? everyMs : Math.min(everyMs, Math.ceil(quietMsMax / 4))
      await pause(spec.clock, pauseMs, ended)
      const leader = this.#options.leader()
      if (ended.aborted || leader === undefined) return
      if ((inFlight.quietMs ?? quietMsMax) < quietMsMax) {
        suspicion = NO_SUSPICION // it is answering right now
        continue
      }
      const hasOutput = this.#hasOutput
      this.#hasOutput = false
      const context = { leader, signal: ended, clock: spec.clock, prove: false, identifyAlways: false }
      const probe = await runProbe(target, context)
      if (ended.aborted) return
      const { quietMs } = inFlight
      const seen = { nowMs: spec.clock.now(), probe, vitals: readVitalSigns(leader), hasOutput, quietMs }
      const { state, verdict } = observe(suspicion, seen, limits)
      if (verdict !== undefined) return this.#options.onFailed(verdict.reason, verdict.detail)
      suspicion = state
    }
  }

  #detectHang(): void {
    const { spec, inFlight } = this.#options
    this.schedule(Math.max(1, Math.floor(spec.limits.hungMs / TICKS)), () => {
      this.#options.onTick()
      const silent = inFlight.tick(TICKS) // I3: only while we are awake
      if (silent !== undefined) this.#options.onFailed('no_progress', `request ${silent}`)
      else this.#detectHang()
    })
  }
}
