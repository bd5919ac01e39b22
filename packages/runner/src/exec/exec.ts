/**
 * One exec from its reservation to its end: the I/O around the state machine in state.ts.
 *
 * I1  The end is written once, after the tree is gone and the pipes are empty: every byte comes before `exit`, and waiters
 *     are woken after it.
 */
import { existsSync, appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Diagnostic, classify } from '@breakfall/faults'
import { type Exec as ExecRecord, diagnosticSchema } from '@breakfall/wire'
import { listenersBeside, processesBeside, socketsOf } from '@breakfall/supervisor/platform'
import { killIncomplete, noSpace, spawnRefused, workspaceChanged } from './diagnostics.ts'
import { endOf, keepEnd, removeFilesSoon } from './end.ts'
import type { EndReason } from './exit-record.ts'
import { EXEC_FILES, type ExecEnd, noteReason } from './exec-folder.ts'
import type { Keeper } from './keeper.ts'
import { inheritedKeeper, type KeeperLink, ownKeeper } from './keeper-link.ts'
import type { Stream } from './event-log.ts'
import { ExecOutput } from './output.ts'
import { execRecord } from './record.ts'
import { Run } from './run.ts'
import type { ExecSetup } from './exec-setup.ts'
import {
  type ExecAction,
  type ExecInput,
  type ExecState,
  runOf,
  startedAtMsOf,
  transition,
  type Refusal,
} from './state.ts'
import { StatusFile } from './status-file.ts'
import { StdinPipe } from './stdin.ts'
import { terminate } from './terminate.ts'
import { Background } from './background.ts'

const SIGNAL_STEP_MS = 5

export class Exec {
  readonly id: string
  readonly folder: string
  readonly setup: ExecSetup
  readonly stdin: StdinPipe
  /** Only of a background exec. */
  readonly background: Background | undefined
  readonly #output: ExecOutput
  readonly #status: StatusFile
  readonly #waiters = new Waiters()
  readonly #diagnostics: Diagnostic[] = []
  #state: ExecState<Run> = { phase: 'reserved' }

  constructor(setup: ExecSetup) {
    this.id = setup.reservation.execId
    this.folder = setup.folder
    this.setup = setup
    this.#output = new ExecOutput(setup, {
      onBytes: () => this.#begin(),
      onChange: () => this.#waiters.notify(),
      onFull: (diagnostic) => {
        const isKnown = this.#diagnostics.some(({ id }) => id === diagnostic?.id) // both streams may be full
        if (diagnostic !== undefined && !isKnown) this.#diagnostics.push(diagnostic)
        if (this.background === undefined) void this.stop('output_limit') // a server goes on without its log
      },
      onUnavailable: (diagnostic) => {
        if (this.#state.phase === 'spawning') {
          this.#take({ type: 'refused', refusal: { reason: 'no_process', diagnostic } })
          return
        }
        this.#diagnostics.push(diagnostic)
        void this.stop('output_limit')
      },
    })
    if (setup.launch === undefined) this.#diagnostics.push(...readNotes(setup.folder))
    this.#status = new StatusFile(join(setup.folder, EXEC_FILES.status))
    this.background = setup.reservation.request.background && new Background(this)
    this.stdin = new StdinPipe(join(setup.folder, EXEC_FILES.stdin), setup.reservation.request.stdin === 'pipe')
  }

  // ---- what others see ----

  get isOver(): boolean {
    return this.#state.phase === 'over'
  }

  /** Events in the log, without the exit event. */
  get count(): number {
    return this.#output.count
  }

  get end(): ExecEnd | undefined {
    return this.#state.phase === 'over' ? this.#state.end : undefined
  }

  /** As its status file says; undefined if no keeper has claimed it. */
  get keeperName(): string | undefined {
    return this.#status.status.name
  }

  /** Init of its sandbox; undefined if there is none yet. */
  get sandboxPid(): number | undefined {
    return this.#status.status.sandboxPid
  }

  /** Adds something to its end that the exec itself does not know. One of each kind: the one that names the most. */
  note(diagnostic: Diagnostic): void {
    const at = this.#diagnostics.findIndex(({ id }) => id === diagnostic.id)
    const known = this.#diagnostics[at]
    if (this.isOver || (known !== undefined && known.evidence.length >= diagnostic.evidence.length)) return
    if (known === undefined) this.#diagnostics.push(diagnostic)
    else this.#diagnostics[at] = diagnostic
    keepNote(this.folder, diagnostic)
  }

  record(): ExecRecord {
    const startedAtMs = startedAtMsOf(this.#state)
    return execRecord(this.setup.boxId, this.setup.reservation, {
      state: this.isOver ? 'exited' : startedAtMs === null ? 'starting' : 'running',
      startedAtMs,
      stdoutBytes: this.#output.bytes('stdout'),
      stderrBytes: this.#output.bytes('stderr'),
      lastSeq: this.#output.count,
      end: this.end,
      background: this.background?.record,
    })
  }

  /** The ports that its processes listen on. */
  ports(): readonly number[] {
    const run = runOf(this.#state)
    const leader = this.sandboxPid ?? this.#status.status.pid
    if (run === null || leader === undefined) return []
    return listeningPorts(leader, this.setup.level === 'bwrap' ? undefined : run.tree.remaining())
  }

  readonly bytes = (stream: Stream): number => this.#output.bytes(stream)

  /** When its command started; null if it has not. */
  get startedAtMs(): number | null {
    return startedAtMsOf(this.#state)
  }

  /** Writes the event. */
  logReady(ports: readonly number[]): void {
    if (this.isOver) return
    this.#output.ready(ports, this.setup.clock.now())
    this.#waiters.notify()
  }

  /** Resolves at the next event, at the end, or when `signal` aborts. */
  changed(signal: AbortSignal): Promise<void> {
    return this.isOver ? Promise.resolve() : this.#waiters.next(signal)
  }

  async over(signal: AbortSignal): Promise<void> {
    while (!this.isOver && !signal.aborted) await this.changed(signal)
  }

  // ---- what others ask for ----

  start(): void {
    this.setup.queue.add((slot) => this.#take({ type: 'turn', slot }))
  }

  /** Resumes an exec of an earlier runner whose keeper is alive. */
  adopt(keeperPid: number, startedAtMs: number | null, reason: EndReason | null): void {
    this.#take({ type: 'adopted', run: this.#inherit(keeperPid), startedAtMs, stop: reason })
  }

  /** Ends an exec of an earlier runner whose keeper claimed it and is gone. */
  async closeOrphan(startedAtMs: number | null, reason: EndReason | null): Promise<void> {
    this.#take({ type: 'orphaned', run: this.#inherit(undefined), startedAtMs, stop: reason })
    await this.over(new AbortController().signal)
  }

  /** Ends an exec of an earlier runner that no keeper had claimed. */
  async closeUnclaimed(reason: EndReason | null): Promise<void> {
    this.#take({ type: 'never_claimed', stop: reason })
    await this.over(new AbortController().signal)
  }

  /** Ends it for a reason; the first one counts. Resolves when it is over. */
  async stop(reason: EndReason, graceMs = this.setup.reservation.request.killGraceMs): Promise<void> {
    this.#take({ type: 'stop', reason, graceMs })
    await this.over(new AbortController().signal)
  }

  /** Waits for a command that is still starting. False if no process is left to receive it. */
  async signal(signal: NodeJS.Signals): Promise<boolean> {
    while (!this.#isDone() && !this.#isReady()) await this.over(AbortSignal.timeout(SIGNAL_STEP_MS))
    return runOf(this.#state)?.tree.signal(signal) ?? false
  }

  /** Closes files and pipes and leaves the exec to its keeper: this process ends, the exec does not. */
  release(): void {
    if (this.isOver) return
    this.background?.close()
    this.#take({ type: 'release' })
    this.stdin.release()
    this.#output.close()
  }

  // ---- the state machine and its actions ----

  #take(input: ExecInput<Run>): void {
    const { state, actions } = transition(this.#state, input)
    this.#state = state
    for (const action of actions) this.#perform(action)
  }

  #perform(action: ExecAction<Run>): void {
    switch (action.do) {
      case 'spawn':
        return this.#spawn(action.newKeeper)
      case 'free_slot':
        return action.slot()
      case 'watch':
        return this.#watch(action.run)
      case 'unwatch':
        return action.run.unwatch()
      case 'open_output':
        return this.#output.open()
      case 'log_start':
        return this.#logStart(action.atMs)
      case 'note_reason':
        return noteReason(this.folder, action.reason)
      case 'kill':
        return void this.#kill(action.run, action.graceMs ?? this.setup.reservation.request.killGraceMs)
      case 'kill_keeper':
        this.#diagnostics.push(killIncomplete(action.reason))
        return action.run.keeper.kill()
      case 'settle':
        return void this.#settle()
      case 'leave':
        return action.run.keeper.leave()
    }
  }

  /** No command starts before its output can be copied. */
  #spawn(newKeeper: boolean): void {
    try {
      this.#output.open()
    } catch (error) {
      this.#take({ type: 'refused', refusal: refusalOf(error) })
      return
    }
    this.setup.pump.whenReady(() => this.#giveToKeeper(newKeeper))
  }

  #giveToKeeper(newKeeper: boolean): void {
    if (this.#state.phase !== 'spawning') return // it was stopped, or its output cannot be kept
    const { clock, keepers, launch } = this.setup
    const spawnedAtMs = clock.monotonicMs()
    let keeper: Keeper
    try {
      if (launch === undefined) throw new Error('an exec of an earlier runner is never spawned again')
      const job = launch.prepare()
      this.stdin.prepare()
      keeper = keepers.run({ execId: this.id, atMs: spawnedAtMs, ...job }, (why) => this.#keeperLost(why), newKeeper)
    } catch (error) {
      this.#take({ type: 'refused', refusal: refusalOf(error) })
      return
    }
    this.#take({ type: 'spawned', run: this.#run(ownKeeper(keeper, keepers), spawnedAtMs) })
  }

  #inherit(pid: number | undefined): Run {
    this.#status.read()
    const { name, atMs } = this.#status.status
    const group = name === undefined ? undefined : this.setup.keepers.groupOf(name)
    const run = this.#run(inheritedKeeper(pid, group), atMs)
    run.readStatus()
    return run
  }

  #run(keeper: KeeperLink, spawnedAtMs: number | undefined): Run {
    return new Run(this.setup, { status: this.#status, stdin: this.stdin }, keeper, spawnedAtMs)
  }

  #watch(run: Run): void {
    if (run.keeper.pid === undefined) return // no process could be made; an event is about to say so
    this.#output.open()
    run.watch({ onStatus: () => this.#statusChanged(run), onDeadline: () => void this.stop('timed_out') })
    this.#statusChanged(run)
    this.background?.watch()
  }

  /** The keeper may have written something. */
  #statusChanged(run: Run): void {
    if (runOf(this.#state) !== run || this.#state.phase === 'ending') return
    if (run.readStatus()) {
      this.#begin()
      this.stdin.open()
    }
    if (this.#status.status.exit !== undefined) this.#take({ type: 'exit_reported' })
    else if (!run.keeper.wake()) this.#keeperLost()
  }

  /** The command runs, or its first bytes are here. The time is that of the spawn: a short command is over before it is seen. */
  #begin(): void {
    const run = runOf(this.#state)
    if (run === null || startedAtMsOf(this.#state) !== null) return
    run.readStatus()
    this.#take({ type: 'started', atMs: Math.round(this.setup.clock.now() - run.elapsedMs()) })
  }

  #logStart(atMs: number): void {
    const { sandboxPid, pid, keeper } = this.#status.status
    this.#output.start(sandboxPid ?? pid ?? keeper ?? runOf(this.#state)?.keeper.pid ?? 0, atMs)
    this.#waiters.notify()
  }

  /** With `why` the keeper exited on its own, which it does only before it starts a command. */
  #keeperLost(why?: string): void {
    const run = runOf(this.#state)
    if (run === null) return
    run.readStatus()
    const claimed = existsSync(join(this.folder, EXEC_FILES.claim))
    this.#take({
      type: 'keeper_lost',
      claimed,
      ranNothing: !claimed || (why !== undefined && this.#status.status.pid === undefined),
      refusal: refusalOf(new Error(why ?? 'the keeper was killed before it started the command')),
    })
  }

  async #kill(run: Run, graceMs: number): Promise<void> {
    const isEnded = await terminate({
      tree: run.tree,
      graceMs: this.#output.truncated ? 0 : graceMs, // nothing more of its output is kept, so no grace is needed
      isReady: () => this.#isReady(),
      isOver: async (waitMs) => {
        await this.over(AbortSignal.timeout(waitMs))
        return this.#isDone()
      },
      monotonicMs: this.setup.clock.monotonicMs,
    })
    if (!isEnded) this.#take({ type: 'kill_failed' })
  }

  /** Over, or no longer ours. */
  #isDone(): boolean {
    return this.isOver || this.#state.phase === 'released'
  }

  #isReady(): boolean {
    return runOf(this.#state)?.isReady() ?? false
  }

  // ---- the end ----

  async #settle(): Promise<void> {
    const ending = this.#ending()
    if (ending === undefined) return
    const survivors = ending.claimed ? await ending.run.endTree() : []
    if (this.#ending() === undefined) return // released: the next runner reads what is left in the pipes
    ending.run?.readStatus()
    if (ending.claimed) this.#begin()
    await this.#output.drain() // I1: no process is left that could write
    if (this.#ending() !== undefined) this.#finish(survivors)
  }

  #ending(): Extract<ExecState<Run>, { phase: 'ending' }> | undefined {
    return this.#state.phase === 'ending' ? this.#state : undefined
  }

  #finish(survivors: readonly number[]): void {
    const ending = this.#ending()
    if (ending === undefined) return
    const denied = this.setup.onQuiet()
    const { end, isClean } = endOf(ending, {
      setup: this.setup,
      output: this.#output,
      status: this.#status.status,
      diagnostics: this.#diagnostics,
      survivors,
      denied,
    })
    const isKept = keepEnd(this.folder, end, () => this.#kept(end)) // I1: written once, after the last byte
    this.#take({ type: 'settled', end })
    this.#output.close()
    this.background?.close()
    ending.run?.keeper.dismiss(isKept && isClean) // everything is read
    this.#waiters.notify()
    this.stdin.end()
    if (isKept) this.#kept(end)
  }

  #kept(end: ExecEnd): void {
    removeFilesSoon(this.folder)
    this.setup.onEnd(end)
  }
}

// ---- details, in the order they are used above ----

/** Callers that wait for a change. They check the state themselves afterwards, so a late caller misses nothing. */
class Waiters {
  readonly #waiting = new Set<() => void>()

  /** Resolves at the next `notify`, or when `signal` aborts. */
  next(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#waiting.delete(done)
        signal.removeEventListener('abort', done)
        resolve()
      }
      if (signal.aborted) done()
      else {
        this.#waiting.add(done)
        signal.addEventListener('abort', done)
      }
    })
  }

  notify(): void {
    for (const done of this.#waiting) done()
  }
}

/** A diagnostic about a running exec, kept in its folder: its end reports it even if another runner writes the end. */
function keepNote(folder: string, diagnostic: Diagnostic): void {
  try {
    appendFileSync(join(folder, EXEC_FILES.notes), `${JSON.stringify(diagnostic)}\n`, { mode: 0o600 })
  } catch {
    // The disk is full: only a restart before the end of the exec would miss this.
  }
}

function readNotes(folder: string): readonly Diagnostic[] {
  const file = join(folder, EXEC_FILES.notes)
  if (!existsSync(file)) return []
  const notes = readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line) => {
      try {
        return [diagnosticSchema.parse(JSON.parse(line))]
      } catch {
        return [] // cut off by a crash
      }
    })
  return [...new Map(notes.map((note) => [note.id, note])).values()] // a later one names more
}

/**
 * Which ports the processes of an exec listen on, as the system shows it outside: no probe connection is made. `pid`: a process in the exec's network and, in a sandbox, its pid namespace. `pids`: its processes, if that is known.
 */
function listeningPorts(pid: number, pids?: readonly number[]): readonly number[] {
  const listeners = listenersBeside(pid) ?? []
  if (listeners.length === 0) return []
  const held = new Set((pids ?? processesBeside(pid)).flatMap(socketsOf))
  const ports = new Set(listeners.filter(({ socket }) => held.has(socket)).map(({ port }) => port))
  return [...ports].toSorted((a, b) => a - b)
}

/** Why a keeper could not be given a job, as a reason and a diagnostic. */
function refusalOf(error: unknown): Refusal {
  const { category, errorRaw } = classify(error, { boundary: 'box', phase: 'spawn' })
  if (category === 'file_not_found') return { reason: 'cwd_missing', diagnostic: workspaceChanged }
  if (category === 'journal_full') return { reason: 'no_space', diagnostic: noSpace(errorRaw) }
  return { reason: 'no_process', diagnostic: spawnRefused(errorRaw) }
}
