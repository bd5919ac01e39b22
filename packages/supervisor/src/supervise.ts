/**
 * Owns a child process: starts it, judges its exit, fails the requests that depend on it, restarts it or gives up.
 *
 *   stopped → starting → ready ⇄ busy → stopping → stopped
 *   starting | ready | busy → failed → backoff → starting, or failed → given_up
 *
 * I1  One loop, so at most one process. A concurrent start or stop joins that loop.
 * I2  Requests in flight get their faults before the state says failed.
 * I3  The last call wins: a stop during a start, a start during a stop and two of either end in one well-defined state.
 * I4  `decide` decides about restarts, through RestartPolicy.
 */
import { randomUUID } from 'node:crypto'
import { Fault } from '@breakfall/faults'
import { ActiveRun, type FinishedRun } from './active-run.ts'
import { pause } from './clock.ts'
import { type Dropped, EventStream } from './event-stream.ts'
import { callHook } from './hooks.ts'
import { InFlight, type InFlightRequest, type RequestInit } from './in-flight.ts'
import { recordEnd, recordStart } from './orphans.ts'
import { prepareRun, type Unprepared } from './prepare.ts'
import { type ExitReport, faultOf, type JudgedReport, judge, NO_FACTS, messageOf, type RestartPlan } from './report.ts'
import { RestartPolicy } from './restart-policy.ts'
import type { ChildEvent, ChildState, StartOptions, Supervised } from './supervised.ts'
import { resolveSpec } from './resolve-spec.ts'
import type { ResolvedSpec, SuperviseSpec } from './spec.ts'

/** Throws a fault that names every wrong field of a bad spec. Starts nothing yet. */
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
  readonly #inFlight = new InFlight(
    () => this.#onLoad(),
    () => this.#spec.clock.now(),
  )
  /** Requests that failed before the process of this run was gone; the report lists them too. */
  #failedEarly: readonly string[] = []
  #state: ChildState = { status: 'stopped', report: null }
  #report: ExitReport | null = null
  #run: ActiveRun | undefined
  #loop: Promise<void> | undefined
  #goal: 'run' | 'stop' | 'restart' = 'stop'
  #stops = 0 // I3: shows whether a stop was requested in the meantime
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

  get lastLine(): string | null {
    if (this.#run !== undefined) return this.#run.lastLine
    return this.#report?.stderrTail.findLast((line) => line.trim() !== '') ?? null
  }

  async start(options: StartOptions = {}): Promise<void> {
    const stops = this.#stops
    while (this.#loop !== undefined && this.#goal === 'stop') {
      await this.#loop
      if (this.#stops !== stops) throw this.#notRunning() // I3: a later stop wins
    }
    if (this.serving) return
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#waiters.push({ resolve, reject })
    if (this.#loop === undefined) this.#begin(options)
    await promise
  }

  async ready(signal?: AbortSignal): Promise<void> {
    const refused = (): Fault | undefined => {
      if (signal?.aborted === true) return new Fault('cancelled', { cause: signal.reason })
      if (this.#state.status === 'given_up') return this.#state.fault
      return this.#loop === undefined ? this.#notRunning() : undefined
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const check = (): void => {
      const fault = refused()
      if (fault !== undefined) reject(fault)
      else if (this.serving) resolve()
    }
    const off = this.#stream.on((event) => {
      if (event.type === 'state') queueMicrotask(check) // after the loop has moved on
    })
    signal?.addEventListener('abort', check, { once: true })
    check()
    try {
      await promise
    } finally {
      off()
      signal?.removeEventListener('abort', check)
    }
  }

  async stop(): Promise<ExitReport | null> {
    this.#stops += 1
    this.#goal = 'stop'
    if (this.#loop === undefined) {
      if (this.#state.status !== 'stopped') this.#set({ status: 'stopped', report: this.#report })
      return this.#report
    }
    this.#interrupt('stop')
    await this.#loop
    return this.#report
  }

  async restart(): Promise<void> {
    if (this.#loop === undefined || this.#goal === 'stop') return this.start()
    this.#goal = 'restart'
    this.#policy.reset()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#waiters.push({ resolve, reject })
    this.#interrupt('restart')
    await promise
  }

  fail(why: string): void {
    void this.#run?.end('unhealthy', why)
  }

  request(init: RequestInit = {}): InFlightRequest {
    if (this.serving) return this.#inFlight.open(init)
    if (this.#state.status === 'given_up' || this.#state.status === 'failed') throw this.#state.fault
    throw this.#notRunning()
  }

  async checkListening(): Promise<void> {
    if (this.serving) await this.#run?.checkListening()
  }

  write(data: string | Uint8Array): Promise<void> {
    return this.#run === undefined ? Promise.reject(this.#notRunning()) : this.#run.write(data)
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

  #begin({ onProbation = false }: StartOptions): void {
    this.#goal = 'run'
    this.#wake = new AbortController()
    this.#policy.reset()
    if (onProbation) this.#policy.onProbation(this.#spec.clock.now())
    this.#loop = this.#runLoop()
  }

  async #runLoop(): Promise<void> {
    try {
      while (await this.#once()) this.#wake = new AbortController()
    } catch (bug) {
      // A bug of ours. The child must not keep running without an owner.
      await this.#run?.end('stop')
      this.#run = undefined
      this.#inFlight.failAll(({ id, sideEffects }) => new Fault('other', { cause: bug, requestId: id, sideEffects }))
      this.#finish({ status: 'stopped', report: this.#report }, new Fault('other', { cause: bug }))
    }
  }

  /** One run, from its start to the decision about the next. True if another run follows. */
  async #once(): Promise<boolean> {
    const runId = randomUUID()
    this.#set({ status: 'starting', runId, attempt: this.#policy.inARow + 1 })
    const finished = await this.#runOnce(runId)
    if (finished !== undefined && this.#currentGoal() === 'run' && !finished.report.expected)
      return this.#recover(finished)
    if (finished !== undefined) this.#conclude(finished, NO_PLAN)
    if (finished?.report.expected === true && this.#currentGoal() === 'run') this.#goal = 'stop' // a oneshot that finished its work
    return this.#followGoal(this.#report)
  }

  /** Undefined if the start was cancelled before there was a process. */
  async #runOnce(runId: string): Promise<FinishedRun | undefined> {
    const spec = this.#spec
    const prepared = await prepareRun(spec, { runId, attempt: this.#policy.inARow + 1 }, this.#wake.signal)
    if (this.#currentGoal() !== 'run') return undefined
    if ('failure' in prepared) return this.#unstarted(runId, prepared)
    const run = new ActiveRun(spec, prepared, { childId: this.id, runId }, this.#inFlight, {
      onReady: () => this.#onReady(runId),
      onDiagnosis: (diagnosis) => this.#stream.emit({ type: 'diagnosis', at: this.#at(), runId, diagnosis }),
      onProgress: (message) => this.#stream.emit({ type: 'progress', at: this.#at(), runId, message }),
      onEnding: (report) => this.#failInFlight(report),
    })
    this.#run = run
    const { leader } = run
    if (leader !== undefined) recordStart(spec.stateDir, leader)
    const finished = await run.over
    if (leader !== undefined) recordEnd(spec.stateDir, leader)
    this.#run = undefined
    return finished
  }

  /** The run failed without our asking. */
  async #recover(finished: FinishedRun): Promise<boolean> {
    const { clock } = this.#spec
    const plan = this.#policy.plan(finished.report, {
      readyForMs: finished.readyForMs,
      now: clock.now(),
      dice: clock.dice(),
      override: callHook(() => this.#spec.mayRestart?.(finished.report)),
    })
    const { report, fault } = this.#conclude(finished, plan)
    this.#set({ status: 'failed', report, fault })
    if (this.#currentGoal() !== 'run') return this.#followGoal(report)
    if (plan.decision === 'give_up') {
      const final = plan.because === 'crash_loop' ? crashLoop(report, fault) : fault
      this.#finish({ status: 'given_up', reason: plan.because, report, fault: final }, final)
      return false
    }
    const { delayMs } = plan
    const until = new Date(clock.epoch() + delayMs).toISOString()
    this.#set({ status: 'backoff', until, attempt: plan.attempt, report })
    await pause(clock, delayMs, this.#wake.signal)
    return this.#followGoal(report)
  }

  /** Does what was asked for in the meantime (I3). True if another run follows. */
  #followGoal(report: ExitReport | null): boolean {
    if (this.#currentGoal() === 'stop') {
      this.#finish({ status: 'stopped', report }, this.#notRunning('stopped'))
      return false
    }
    this.#goal = 'run'
    return true
  }

  /** Completes the report and passes it on: to requests first (I2), then to callers of `start`, then to listeners. */
  #conclude(finished: FinishedRun, plan: RestartPlan): { readonly report: ExitReport; readonly fault: Fault } {
    const report: ExitReport = {
      ...finished.report,
      inFlight: [...this.#failedEarly, ...this.#inFlight.ids],
      restart: plan,
    }
    this.#failedEarly = []
    const fault = faultOf(report, { cause: finished.cause })
    this.#report = report
    this.#inFlight.failAll(({ id, sideEffects }) =>
      faultOf(report, { cause: finished.cause, requestId: id, sideEffects }),
    )
    // Waiting callers asked for this start. If the run had been ready, they asked after that, and mean the next one.
    const isTheirs = !report.expected && finished.readyForMs === undefined && this.#currentGoal() !== 'restart'
    if (isTheirs) this.#settle((waiter) => waiter.reject(startFault(fault, plan)))
    this.#stream.emit({ type: 'exit', at: this.#at(), report })
    return { report, fault }
  }

  /** A child that we end may need the whole stop ladder. Its requests fail at once, with what is known so far. */
  #failInFlight(report: JudgedReport): void {
    this.#failedEarly = this.#inFlight.ids
    this.#stream.emit({ type: 'ending', at: this.#at(), report })
    this.#inFlight.failAll(({ id, sideEffects }) => faultOf(report, { requestId: id, sideEffects }))
  }

  #finish(state: ChildState, fault: Fault): void {
    this.#loop = undefined
    this.#settle((waiter) => waiter.reject(fault)) // before listeners can ask for something new
    this.#set(state)
  }

  #unstarted(runId: string, { failure, cause }: Unprepared): FinishedRun {
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
    this.#settle((waiter) => waiter.resolve()) // before listeners can ask for something new
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

  /** Read through a method, because it changes while we wait. */
  #currentGoal(): 'run' | 'stop' | 'restart' {
    return this.#goal
  }

  #notRunning(status: ChildState['status'] = this.#state.status): Fault {
    const isFailing = status === 'ready' || status === 'busy' // the process is gone or being ended; the report comes next
    const isComing = status === 'starting' || status === 'backoff' || isFailing
    const error = isComing
      ? `${this.name} is not ready (${isFailing ? 'failing' : status}).`
      : `${this.name} is not running (${status}).`
    return new Fault('process_failed', { error, phase: status, ...(isComing ? {} : { next: 'never' as const }) })
  }

  #at(): string {
    return new Date(this.#spec.clock.epoch()).toISOString()
  }
}

const NO_PLAN: RestartPlan = { decision: 'none', delayMs: null, attempt: 0, windowCount: 0, because: 'asked' }

function crashLoop(report: ExitReport, last: Fault): Fault {
  return new Fault('crash_loop', {
    message: messageOf(report),
    errorRaw: last.errorRaw,
    cause: last,
    phase: report.phase,
    diagnostics: last.report.diagnostics,
    stopped: 'crash_loop',
  })
}

/** A program whose first start fails often exits, and the supervisor with it: promise no time for the restart. */
const startFault = (fault: Fault, { decision }: RestartPlan): Fault =>
  decision === 'restart' ? fault.with({ message: { action: 'It restarts as long as this program runs.' } }) : fault
