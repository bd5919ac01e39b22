/**
 * The one owner of a child process: starts it, judges it, fails what depends on it, starts it again or gives it up.
 *
 *   stopped → starting → ready ⇄ busy → stopping → stopped
 *   starting | ready | busy → failed → backoff → starting, or failed → given_up
 *
 * I1  There is one loop and so at most one process; whoever asks for a start or a stop meanwhile joins it.
 * I2  Requests in flight have their faults before the state says failed.
 * I3  The last wish wins: a stop during a start, a start during a stop and two of either end in one well-defined state.
 * I4  Whether to try again is `decide`'s, through RestartPolicy.
 */
import { randomUUID } from 'node:crypto'
import { Fault } from '@breakfall/faults'
import { ActiveRun, type JudgedRun } from './active-run.ts'
import { pause } from './clock.ts'
import { type Dropped, EventStream } from './event-stream.ts'
import { callHook } from './hooks.ts'
import { InFlight, type InFlightRequest, type RequestInit } from './in-flight.ts'
import { noteEnd, noteStart } from './orphans.ts'
import { prepareRun, type Unprepared } from './prepare.ts'
import { type ExitReport, faultOf, type JudgedReport, judge, NO_FACTS, type RestartPlan, sentence } from './report.ts'
import { type GiveUpReason, RestartPolicy } from './restart-policy.ts'
import type { ChildEvent, ChildState, Supervised } from './supervised.ts'
import { type ResolvedSpec, resolveSpec, type SuperviseSpec } from './spec.ts'

/** Refuses a bad spec at once, with the field named. Starts nothing yet. */
export function supervise(spec: SuperviseSpec): Supervised {
  return new Supervisor(resolveSpec(spec))
}

// ---- details, in the order they are used above ----

type Waiter = { readonly resolve: () => void; readonly reject: (fault: Fault) => void }

class Supervisor implements Supervised {
  readonly id = randomUUID()
  readonly #spec: ResolvedSpec
  readonly #policy: RestartPolicy
  readonly #stream = new EventStream<ChildEvent>()
  readonly #inFlight = new InFlight(() => this.#onLoad())
  /** Requests of this run that were told before its end, for the report. */
  #told: readonly string[] = []
  #state: ChildState = { status: 'stopped', report: null }
  #report: ExitReport | null = null
  #run: ActiveRun | undefined
  #loop: Promise<void> | undefined
  #wish: 'run' | 'stop' | 'restart' = 'stop'
  #stops = 0 // I3: tells whether somebody has asked for a stop meanwhile
  #wake = new AbortController()
  #waiters: Waiter[] = []

  constructor(spec: ResolvedSpec) {
    this.#spec = spec
    this.#policy = new RestartPolicy(spec.limits)
  }

  get name(): string {
    return this.#spec.name
  }

  get state(): ChildState {
    return this.#state
  }

  get serving(): boolean {
    const { status } = this.#state
    return (status === 'ready' || status === 'busy') && this.#run?.ending === false
  }

  get pid(): number | null {
    return this.#run?.leader?.pid ?? null
  }

  get report(): ExitReport | null {
    return this.#report
  }

  async start(): Promise<void> {
    const stops = this.#stops
    while (this.#loop !== undefined && this.#wish === 'stop') {
      await this.#loop
      if (this.#stops !== stops) throw this.#notRunning() // I3: a later stop has won
    }
    if (this.serving) return
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#waiters.push({ resolve, reject })
    if (this.#loop === undefined) this.#begin()
    await promise
  }

  async ready(signal?: AbortSignal): Promise<void> {
    const refused = (): Fault | undefined => {
      if (signal?.aborted === true) return new Fault('cancelled', { cause: signal.reason })
      if (this.#state.status === 'given_up') return this.#state.fault
      return this.#loop === undefined ? this.#notRunning() : undefined
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const look = (): void => {
      const fault = refused()
      if (fault !== undefined) reject(fault)
      else if (this.serving) resolve()
    }
    const off = this.#stream.on((event) => {
      if (event.type === 'state') queueMicrotask(look) // after the loop has moved on
    })
    signal?.addEventListener('abort', look, { once: true })
    look()
    try {
      await promise
    } finally {
      off()
      signal?.removeEventListener('abort', look)
    }
  }

  async stop(): Promise<ExitReport | null> {
    this.#stops += 1
    this.#wish = 'stop'
    if (this.#loop === undefined) {
      if (this.#state.status !== 'stopped') this.#set({ status: 'stopped', report: this.#report })
      return this.#report
    }
    this.#interrupt('stop')
    await this.#loop
    return this.#report
  }

  async restart(): Promise<void> {
    if (this.#loop === undefined || this.#wish === 'stop') return this.start()
    this.#wish = 'restart'
    this.#policy.reset()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#waiters.push({ resolve, reject })
    this.#interrupt('restart')
    await promise
  }

  request(init: RequestInit = {}): InFlightRequest {
    if (this.serving) return this.#inFlight.open(init)
    if (this.#state.status === 'given_up' || this.#state.status === 'failed') throw this.#state.fault
    throw this.#notRunning()
  }

  async checkListening(): Promise<void> {
    if (this.serving) await this.#run?.checkListening()
  }

  async write(data: string | Uint8Array): Promise<void> {
    if (this.#run === undefined) throw this.#notRunning()
    await this.#run.write(data)
  }

  on(listener: (event: ChildEvent) => void): () => void {
    return this.#stream.on(listener)
  }

  events(signal?: AbortSignal): AsyncIterableIterator<ChildEvent | Dropped> {
    return this.#stream.read(signal)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  // ---- the loop ----

  #begin(): void {
    this.#wish = 'run'
    this.#wake = new AbortController()
    this.#policy.reset()
    this.#loop = this.#live()
  }

  async #live(): Promise<void> {
    try {
      while (await this.#once()) this.#wake = new AbortController()
    } catch (bug) {
      // We are wrong ourselves. The child must not run on without an owner.
      await this.#run?.end('stop')
      this.#run = undefined
      this.#inFlight.failAll(({ id, sideEffects }) => new Fault('other', { cause: bug, requestId: id, sideEffects }))
      this.#finish({ status: 'stopped', report: this.#report }, new Fault('other', { cause: bug }))
    }
  }

  /** One run from its start to its consequences. True if another follows. */
  async #once(): Promise<boolean> {
    const runId = randomUUID()
    this.#set({ status: 'starting', runId, attempt: this.#policy.inARow + 1 })
    const judged = await this.#runOnce(runId)
    if (judged !== undefined && this.#wished() === 'run' && !judged.report.expected) return this.#recover(judged)
    if (judged !== undefined) this.#conclude(judged, NO_PLAN)
    if (judged?.report.expected === true && this.#wished() === 'run') this.#wish = 'stop' // a oneshot that has done its work
    return this.#obey(this.#report)
  }

  /** Undefined if nobody wants the start any more before there is a process. */
  async #runOnce(runId: string): Promise<JudgedRun | undefined> {
    const spec = this.#spec
    const prepared = await prepareRun(spec, { runId, attempt: this.#policy.inARow + 1 }, this.#wake.signal)
    if (this.#wished() !== 'run') return undefined
    if ('failure' in prepared) return this.#unstarted(runId, prepared)
    const run = new ActiveRun(spec, prepared, { childId: this.id, runId }, this.#inFlight, {
      onReady: () => this.#onReady(runId),
      onDiagnosis: (diagnosis) => this.#stream.emit({ type: 'diagnosis', at: this.#at(), runId, diagnosis }),
      onProgress: (message) => this.#stream.emit({ type: 'progress', at: this.#at(), runId, message }),
      onCondemned: (report) => this.#tell(report),
    })
    this.#run = run
    const { leader } = run
    if (leader !== undefined) noteStart(spec.stateDir, leader)
    const judged = await run.over
    if (leader !== undefined) noteEnd(spec.stateDir, leader)
    this.#run = undefined
    return judged
  }

  /** It failed and nobody asked for that. */
  async #recover(judged: JudgedRun): Promise<boolean> {
    const { clock } = this.#spec
    const plan = this.#policy.plan(judged.report, {
      readyForMs: judged.readyForMs,
      now: clock.now(),
      dice: clock.dice(),
      override: callHook(() => this.#spec.mayRestart?.(judged.report)),
    })
    const { report, fault } = this.#conclude(judged, plan)
    this.#set({ status: 'failed', report, fault })
    if (this.#wished() !== 'run') return this.#obey(report)
    if (plan.decision !== 'restart') {
      const reason = plan.because as GiveUpReason
      const final = reason === 'crash_loop' ? crashLoop(report, fault) : fault
      this.#finish({ status: 'given_up', reason, report, fault: final }, final)
      return false
    }
    const delayMs = plan.delayMs ?? 0
    const until = new Date(clock.epoch() + delayMs).toISOString()
    this.#set({ status: 'backoff', until, attempt: plan.attempt, report })
    await pause(clock, delayMs, this.#wake.signal)
    return this.#obey(report)
  }

  /** What was wished meanwhile (I3). True if another run follows. */
  #obey(report: ExitReport | null): boolean {
    if (this.#wished() === 'stop') {
      this.#finish({ status: 'stopped', report }, this.#notRunning('stopped'))
      return false
    }
    this.#wish = 'run'
    return true
  }

  /** Makes the report final and tells those who depend on the child: requests first (I2), then waiters, then the world. */
  #conclude(judged: JudgedRun, plan: RestartPlan): { readonly report: ExitReport; readonly fault: Fault } {
    const report: ExitReport = { ...judged.report, inFlight: [...this.#told, ...this.#inFlight.ids], restart: plan }
    this.#told = []
    const fault = faultOf(report, { cause: judged.cause })
    this.#report = report
    this.#inFlight.failAll(({ id, sideEffects }) =>
      faultOf(report, { cause: judged.cause, requestId: id, sideEffects }),
    )
    // Who waits now has waited for this start, unless it had come to be ready: then it is the next that they mean.
    const isTheirs = !report.expected && judged.readyForMs === undefined && this.#wished() !== 'restart'
    if (isTheirs) this.#settle((waiter) => waiter.reject(ofThisStart(fault, judged.report, plan)))
    this.#stream.emit({ type: 'exit', at: this.#at(), report })
    return { report, fault }
  }

  /** A child that we end ourselves may take the whole ladder to go. Its requests are told at once, with what is known by then. */
  #tell(report: JudgedReport): void {
    this.#told = this.#inFlight.ids
    this.#inFlight.failAll(({ id, sideEffects }) => faultOf(report, { requestId: id, sideEffects }))
  }

  #finish(state: ChildState, fault: Fault): void {
    this.#loop = undefined
    this.#settle((waiter) => waiter.reject(fault)) // before others hear of it, and wish for something new
    this.#set(state)
  }

  #unstarted(runId: string, { failure, cause }: Unprepared): JudgedRun {
    const { clock, name, command } = this.#spec
    const report = judge({
      ...NO_FACTS,
      childId: this.id,
      runId,
      name,
      command,
      startReason: failure.reason,
      startDetail: failure.detail,
      startedAt: this.#at(),
      nowMs: clock.now(),
    })
    return { report, readyForMs: undefined, cause }
  }

  #onReady(runId: string): void {
    this.#settle((waiter) => waiter.resolve()) // before others hear of it, and wish for something new
    this.#set({ status: 'ready', runId, pid: this.pid ?? 0 })
  }

  #onLoad(): void {
    const { status } = this.#state
    const wanted = this.#inFlight.size > 0 ? 'busy' : 'ready'
    if ((status === 'ready' || status === 'busy') && status !== wanted) this.#set({ ...this.#state, status: wanted })
  }

  #interrupt(reason: 'stop' | 'restart'): void {
    this.#wake.abort()
    const run = this.#run
    if (run === undefined) return
    if ('runId' in this.#state && this.#state.status !== 'stopping') {
      this.#set({ status: 'stopping', runId: this.#state.runId })
    }
    void run.end(reason)
  }

  #settle(how: (waiter: Waiter) => void): void {
    const waiters = this.#waiters
    this.#waiters = []
    for (const waiter of waiters) how(waiter)
  }

  #set(state: ChildState): void {
    this.#state = state
    this.#stream.emit({ type: 'state', at: this.#at(), state })
  }

  /** Read anew: others change it while we wait. */
  #wished(): 'run' | 'stop' | 'restart' {
    return this.#wish
  }

  #notRunning(status: ChildState['status'] = this.#state.status): Fault {
    const fails = status === 'ready' || status === 'busy' // it has gone or is being ended, and the report is being made
    const comes = status === 'starting' || status === 'backoff' || fails
    const error = comes
      ? `${this.name} is not ready (${fails ? 'failing' : status}).`
      : `${this.name} is not running (${status}).`
    return new Fault('process_failed', { error, phase: status, ...(comes ? {} : { next: 'never' as const }) })
  }

  #at(): string {
    return new Date(this.#spec.clock.epoch()).toISOString()
  }
}

const NO_PLAN: RestartPlan = { decision: 'none', delayMs: null, attempt: 0, windowCount: 0, because: 'asked' }

function crashLoop(report: ExitReport, last: Fault): Fault {
  return new Fault('crash_loop', {
    error: sentence(report),
    errorRaw: last.errorRaw,
    cause: last,
    phase: report.phase,
    diagnostics: last.report.diagnostics,
    stopped: 'crash_loop',
  })
}

/** Whoever awaits a start may well end over it, and with it what would start the child again: no time is promised. */
const ofThisStart = (fault: Fault, report: JudgedReport, { decision }: RestartPlan): Fault =>
  decision === 'restart'
    ? fault.with({ error: `${sentence(report)} It is started again as long as this program runs.` })
    : fault
