/**
 * One run: the process, its output and its health. Ends a process that is useless and produces one report. It does not decide
 * what happens next.
 *
 * I1  Diagnostics come from stderr only, which is drained before the report is made.
 * I2  All timers end with the run.
 */
import { cutStart } from '@breakfall/faults/internal'
import type { ChannelMessage, TerminationError } from './channel.ts'
import { writeInput } from './child-input.ts'
import { ChildRun, type RunOutcome } from './child-run.ts'
import { collectDiagnostics, type Diagnosis, type DiagnosticCollector } from './diagnostics.ts'
import { callHook } from './hooks.ts'
import type { InFlight } from './in-flight.ts'
import { type Line, LineSplitter } from './lines.ts'
import { OomKillCounter } from './oom.ts'
import type { Leader } from './process-table.ts'
import { makeRedactor, type Redactor } from './redactor.ts'
import { type EndReason, type JudgedReport, judge, NO_FACTS, type Phase } from './report.ts'
import { environmentOf, type Prepared } from './prepare.ts'
import type { Ready, ResolvedSpec } from './spec.ts'
import { Tail } from './tail.ts'
import { HealthMonitor } from './health-monitor.ts'

export type RunIds = { readonly childId: string; readonly runId: string }

export type RunEvents = {
  readonly onReady: () => void
  readonly onDiagnosis: (diagnosis: Diagnosis) => void
  readonly onProgress: (message: string) => void
  /** The process is alive, but we are ending it because of a fatal line, a hang or a failed probe. The report is provisional. */
  readonly onEnding: (provisional: JudgedReport) => void
}

export type FinishedRun = {
  readonly report: JudgedReport
  /** Undefined if it never was ready. */
  readonly readyForMs: number | undefined
  readonly cause: unknown
}

const LINE_CHARS_MAX = 500 // of the last line
const PEEK_MS = 500 // how long an unfinished line may wait before it is checked
const EXIT_MS = 1_000 // from the end of stdout to the exit of a process that is exiting

export class ActiveRun {
  readonly over: Promise<FinishedRun>
  readonly #spec: ResolvedSpec
  readonly #ids: RunIds
  readonly #events: RunEvents
  readonly #inFlight: InFlight
  readonly #ready: Ready
  readonly #redactor: Redactor
  readonly #collector: DiagnosticCollector
  readonly #tails = { stdout: new Tail(), stderr: new Tail() }
  readonly #splitters: { readonly stdout: LineSplitter; readonly stderr: LineSplitter }
  readonly #ended = new AbortController()
  readonly #child: ChildRun
  readonly #startedMs: number
  readonly #startedAt: string
  readonly #oom = new OomKillCounter()
  readonly #monitor: HealthMonitor
  #endedBy: EndReason | null = null
  #endedDetail: string | null = null
  #endPhase: Phase | undefined
  #terminationError: TerminationError | null = null
  #peekScheduled = false
  /** Stdout carries messages for `onStdout`, and no lines. */
  readonly #isProtocol: boolean
  #lastLine = ''

  constructor(spec: ResolvedSpec, prepared: Prepared, ids: RunIds, inFlight: InFlight, events: RunEvents) {
    const { clock } = spec
    this.#spec = spec
    this.#ids = ids
    this.#events = events
    this.#inFlight = inFlight
    this.#ready = prepared.ready
    this.#isProtocol = spec.onStdout !== undefined && spec.stdoutClosed === 'fail' && prepared.ready.kind !== 'line'
    this.#startedMs = clock.now()
    this.#startedAt = new Date(clock.epoch()).toISOString()
    this.#redactor = makeRedactor(prepared)
    this.#collector = collectDiagnostics({
      redactor: this.#redactor,
      now: clock.now,
      onDiagnosis: (diagnosis) => this.#onDiagnosis(diagnosis),
    })
    this.#splitters = {
      stdout: new LineSplitter((line) => this.#onLine('stdout', line)),
      stderr: new LineSplitter((line) => this.#onLine('stderr', line)),
    }
    const command = { runId: ids.runId, args: prepared.args, env: environmentOf(prepared) }
    this.#monitor = new HealthMonitor({
      spec,
      ready: this.#ready,
      alive: prepared.alive,
      inFlight,
      leader: () => (this.#child.alive ? this.#child.leader : undefined),
      ended: this.#ended.signal,
      onReady: () => {
        this.#oom.sample(this.leader?.pid)
        events.onReady()
      },
      onFailed: (reason, detail) => void this.end(reason, detail),
      onTick: () => {
        this.#oom.sample(this.leader?.pid)
        this.#child.recordFamily()
      },
    })
    this.#oom.sample(undefined)
    this.#child = new ChildRun(spec, command, {
      onSpawn: () => queueMicrotask(() => this.#monitor.start()),
      onOutput: (stream, chunk) => this.#onOutput(stream, chunk),
      onMessage: (message) => this.#onMessage(message),
      onStdoutClosed: () => {
        if (spec.stdoutClosed === 'fail') this.#endUnlessExiting()
      },
      onExit: () => {
        this.#endPhase ??= this.#phase()
        this.#ended.abort() // I2: no timer outlives the run
      },
    })
    this.over = this.#finish()
  }

  get leader(): Leader | undefined {
    return this.#child.leader
  }

  /** The last line on stderr that says something, redacted. */
  get lastLine(): string | null {
    return this.#lastLine === '' ? null : this.#redactor(this.#lastLine)
  }

  /** The process has exited or is being ended: it accepts no more work. */
  get ending(): boolean {
    return this.#ended.signal.aborted
  }

  /** Ends the process with the stop ladder. The first reason counts. */
  async end(reason: EndReason, detail: string | null = null): Promise<void> {
    if (this.#child.alive && this.#endedBy === null) {
      this.#endPhase = reason === 'stop' || reason === 'restart' ? 'stopping' : this.#phase()
      this.#endedBy = reason
      this.#endedDetail = detail
      this.#ended.abort() // I2: no timer outlives the run
      if (this.#endPhase !== 'stopping') this.#events.onEnding(this.#provisionalReport(this.#endPhase))
    }
    const asked = reason === 'stop' || reason === 'restart'
    await this.#child.end({ gentle: asked })
  }

  /** A process that exits closes its stdout first. Its own exit says more than our signal. */
  #endUnlessExiting(): void {
    // After a stall of this process, timers come before news of exits: one more turn lets those in first.
    this.#monitor.schedule(EXIT_MS, () => setImmediate(() => void this.end('stdout_closed')))
  }

  /** What is known while the process is being ended. The requests in flight do not wait for its exit. */
  #provisionalReport(phase: Phase): JudgedReport {
    const uptimeMs = this.#spec.clock.now() - this.#startedMs
    return judge(this.#facts({ ...STILL_ALIVE, uptimeMs }, phase))
  }

  async checkListening(): Promise<void> {
    await this.#monitor.checkListening()
  }

  /** Writes to the child's stdin. Rejects with a fault if the child does not take it. */
  write(data: string | Uint8Array): Promise<void> {
    const onStalled = (): void => void this.end('stdin_stalled')
    return writeInput(data, { spec: this.#spec, stdin: this.#child.stdin, phase: this.#phase(), onStalled })
  }

  #phase(): Phase {
    if (this.#child.leader === undefined) return 'spawn'
    if (this.#monitor.readyAtMs === undefined) return 'starting'
    return this.#inFlight.size > 0 ? 'busy' : 'ready'
  }

  // ---- output ----

  #onOutput(stream: 'stdout' | 'stderr', chunk: Buffer): void {
    this.#monitor.recordActivity()
    if (stream === 'stdout') callHook(() => this.#spec.onStdout?.(chunk))
    if (stream === 'stderr' || !this.#isProtocol) this.#splitters[stream].push(chunk)
    if (stream === 'stderr') this.#schedulePeek()
    if (stream === 'stderr' || this.#spec.onStdout === undefined) release(chunk)
  }

  #onLine(stream: 'stdout' | 'stderr', line: Line): void {
    this.#tails[stream].push(line)
    if (stream === 'stderr') {
      this.#collector.line(line.text) // I1: stderr only
      if (line.text.trim() !== '') this.#lastLine = cutStart(line.text, LINE_CHARS_MAX)
    }
    callHook(() => this.#spec.onLine?.(line.text, stream))
    const { pattern, stream: wanted } = this.#ready.kind === 'line' ? this.#ready : { pattern: undefined, stream }
    if (pattern !== undefined && (wanted ?? stream) === stream && line.text.search(pattern) !== -1)
      this.#monitor.markReady()
  }

  #onDiagnosis(diagnosis: Diagnosis): void {
    this.#events.onDiagnosis(diagnosis)
    if (!diagnosis.fatal || !this.#child.alive) return
    this.#monitor.schedule(this.#spec.limits.fatalMs, () => void this.end('fatal_signature', diagnosis.message))
  }

  /** A program that hangs in the middle of a line never finishes it. */
  #schedulePeek(): void {
    if (this.#peekScheduled || this.#splitters.stderr.peek() === undefined) return
    this.#peekScheduled = true
    this.#monitor.schedule(PEEK_MS, () => {
      this.#peekScheduled = false
      const unfinished = this.#splitters.stderr.peek()
      if (unfinished !== undefined) this.#collector.peek(unfinished.text)
    })
  }

  #onMessage(message: ChannelMessage): void {
    this.#monitor.recordActivity()
    switch (message.type) {
      case 'ready':
        if (this.#ready.kind === 'notify') this.#monitor.markReady()
        return
      case 'progress':
        this.#events.onProgress(this.#redactor(message.message))
        return
      case 'termination-error': {
        const { name, message: said, stack } = message.error
        const lines = stack === null ? null : this.#redactor(stack)
        this.#terminationError = { name: this.#redactor(name), message: this.#redactor(said), stack: lines }
      }
    }
  }

  // ---- the end ----

  async #finish(): Promise<FinishedRun> {
    const outcome = await this.#child.over
    const { readyAtMs } = this.#monitor
    // Uptimes are rounded to milliseconds, so an exit right after readiness could give a negative number.
    const readyForMs = readyAtMs === undefined ? undefined : Math.max(0, this.#startedMs + outcome.uptimeMs - readyAtMs)
    const phase = this.#endPhase ?? this.#phase()
    this.#ended.abort() // I2: no timer outlives the run
    this.#splitters.stdout.end()
    this.#splitters.stderr.end()
    return { report: judge(this.#facts(outcome, phase)), readyForMs, cause: outcome.cause }
  }

  #facts(outcome: RunOutcome, phase: Phase): Parameters<typeof judge>[0] {
    const { startFailure, rawCode, rawSignal, uptimeMs, forced, abandoned, survivors, drainCut } = outcome
    return {
      ...NO_FACTS,
      ...this.#ids,
      name: this.#spec.name,
      command: this.#spec.command,
      pid: this.leader?.pid ?? null,
      phase,
      rawCode,
      rawSignal,
      startReason: startFailure?.reason ?? null,
      startDetail: startFailure?.detail ?? null,
      oneshot: this.#spec.oneshot,
      oomKills: this.#oom.kills(),
      endedBy: this.#endedBy,
      endedDetail: this.#endedDetail,
      forced,
      abandoned,
      startedAt: this.#startedAt,
      uptimeMs: Math.round(uptimeMs),
      diagnoses: this.#collector.diagnoses(),
      terminationError: this.#terminationError,
      stderrTail: this.#tails.stderr.text(this.#redactor),
      stdoutTail: this.#tails.stdout.text(this.#redactor),
      droppedBytes: this.#tails.stderr.droppedBytes + this.#tails.stdout.droppedBytes,
      drainCut,
      inFlight: this.#inFlight.ids,
      survivors,
      nowMs: this.#spec.clock.now(),
    }
  }
}

// ---- details ----

const STILL_ALIVE: Omit<RunOutcome, 'uptimeMs'> = {
  startFailure: null,
  cause: undefined,
  rawCode: null,
  rawSignal: null,
  forced: false,
  abandoned: false,
  survivors: [],
  drainCut: false,
}

/**
 * Frees the memory of a chunk at once. It was copied and has no other reader. Left to the garbage collector, a flood of output
 * piles up tens of megabytes before the first chunk is collected.
 */
function release(chunk: Buffer): void {
  const { buffer } = chunk
  const isWhole = chunk.byteOffset === 0 && buffer.byteLength === chunk.byteLength // otherwise it is a slice of a shared pool
  if (isWhole && buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0)
}
