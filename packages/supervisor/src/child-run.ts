/**
 * The process of one run: starts it, reads its output, ends it with the stop ladder, and reports the outcome once.
 *
 * I1  `over` resolves exactly once, never rejects, and comes at most one drain after the exit, even if a pipe is still held.
 * I2  The stop ladder has a fixed order and bounded steps: end of stdin, SIGTERM to the group, SIGKILL to all, give up.
 * I3  Output is always read, even without a reader: a full pipe would block the child.
 * I4  No listener, timer or descriptor is left once `over` has resolved.
 */
import { type ChildProcess, spawn, type StdioOptions } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { within } from '@breakfall/faults/internal'
import { CHANNEL_ENV, channelReader, type ChannelMessage, parseChannelMessage } from './channel.ts'
import { pause } from './clock.ts'
import type { LineSplitter } from './lines.ts'
import type { StartFailure } from './preflight.ts'
import { startFailure } from './preflight.ts'
import { type ProcessEntry, readProcess } from './platform.ts'
import { familyOf, type Leader, RUN_MARK, signalEntry, signalGroup, SUPERVISOR_MARK } from './process-table.ts'
import { reaper, SUPERVISOR_ID } from './reaper.ts'
import type { ResolvedSpec } from './spec.ts'

export type RunOutcome = {
  readonly startFailure: StartFailure | null
  readonly cause: unknown
  readonly rawCode: number | null
  readonly rawSignal: string | null
  /** From the spawn to the exit. */
  readonly uptimeMs: number
  /** The stop ladder had to use SIGKILL. */
  readonly forced: boolean
  /** Not even SIGKILL ended it in time. */
  readonly abandoned: boolean
  /** Descendants that were alive after the exit. They were killed if possible. */
  readonly survivors: readonly number[]
  /** Another process held the pipes beyond the drain limit. */
  readonly drainCut: boolean
}

export type RunHooks = {
  readonly onSpawn: () => void
  readonly onOutput: (stream: 'stdout' | 'stderr', chunk: Buffer) => void
  readonly onMessage: (message: ChannelMessage) => void
  readonly onStdoutClosed: () => void
  /** The process is gone. Its output may still be on the way. */
  readonly onExit: () => void
}

export type RunCommand = {
  readonly runId: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
}

export class ChildRun {
  readonly over: Promise<RunOutcome>
  readonly #spec: ResolvedSpec
  readonly #hooks: RunHooks
  readonly #runId: string
  readonly #startedMs: number
  readonly #exited = Promise.withResolvers<void>()
  readonly #exitSignal = new AbortController()
  #child: ChildProcess | undefined
  #leader: Leader | undefined
  #rawCode: number | null = null
  #rawSignal: string | null = null
  #uptimeMs = 0
  #failure: StartFailure | null = null
  #cause: unknown
  #forced = false
  #abandoned = false
  #seen: readonly ProcessEntry[] = []
  #ladder: Promise<void> | undefined

  constructor(spec: ResolvedSpec, command: RunCommand, hooks: RunHooks) {
    this.#spec = spec
    this.#hooks = hooks
    this.#runId = command.runId
    this.#startedMs = spec.clock.now()
    this.#start(command)
    this.over = this.#untilOver()
  }

  get leader(): Leader | undefined {
    return this.#leader
  }

  get alive(): boolean {
    return !this.#exitSignal.signal.aborted
  }

  get stdin(): Writable | null {
    return this.#child?.stdin ?? null
  }

  /** Runs the stop ladder once; later calls wait for it. `gentle: false` skips the end of stdin. */
  async end(options: { readonly gentle: boolean }): Promise<void> {
    this.#ladder ??= this.#climb(options.gentle)
    await this.#ladder
  }

  #start(command: RunCommand): void {
    const spec = this.#spec
    reaper.ensure()
    try {
      this.#child = spawn(spec.command, command.args, {
        cwd: spec.cwd,
        env: {
          ...command.env,
          [SUPERVISOR_MARK]: SUPERVISOR_ID,
          [RUN_MARK]: command.runId,
          [CHANNEL_ENV]: spec.channel === 'fd3' ? '3' : undefined, // our own channel, if we have one, does not belong to the child
        },
        detached: true, // its own group and session, for the stop ladder and against Ctrl-C
        stdio: stdioOf(spec),
        windowsHide: true,
      })
    } catch (error) {
      this.#failed(error) // errors like E2BIG are thrown; errors like ENOENT arrive as an event
      return
    }
    const child = this.#child
    child.once('error', (error) => {
      if (child.pid === undefined) this.#failed(error)
    })
    child.once('exit', (code, signal) => this.#onExit(code, signal))
    this.#read(child)
    if (child.pid === undefined) return
    this.#leader = { pid: child.pid, startTime: readProcess(child.pid)?.startTime, runId: this.#runId }
    reaper.add(this.#leader)
    this.#hooks.onSpawn()
  }

  #failed(error: unknown): void {
    this.#failure = startFailure(error, this.#spec.command)
    this.#cause = error
    this.#exitSignal.abort()
    this.#exited.resolve()
  }

  #onExit(code: number | null, signal: string | null): void {
    this.#rawCode = code
    this.#rawSignal = signal
    this.#uptimeMs = this.#spec.clock.now() - this.#startedMs
    this.#hooks.onExit()
    this.#exitSignal.abort()
    this.#exited.resolve()
  }

  #read(child: ChildProcess): void {
    for (const name of ['stdout', 'stderr'] as const) {
      const stream = child[name]
      stream?.on('data', (chunk: Buffer) => {
        if (chunk.byteLength >= FLOOD_BYTES) takeTurns(stream)
        this.#hooks.onOutput(name, chunk) // I3: always read
      })
      stream?.on('error', ignoreBrokenPipe)
    }
    child.stdin?.on('error', ignoreBrokenPipe)
    child.stdout?.once('end', () => {
      if (this.alive) this.#hooks.onStdoutClosed()
    })
    const line = channelOf(child)
    if (line !== undefined) {
      const reader: LineSplitter = channelReader(this.#hooks.onMessage)
      line.on('data', (chunk: Buffer) => reader.push(chunk))
      line.once('end', () => reader.end())
      line.on('error', ignoreBrokenPipe)
    }
    if (this.#spec.channel === 'ipc') {
      child.on('message', (value) => {
        const message = parseChannelMessage(value)
        if (message !== undefined) this.#hooks.onMessage(message)
      })
    }
  }

  async #untilOver(): Promise<RunOutcome> {
    await this.#exited.promise
    const drainCut = this.#child === undefined ? false : await this.#drain(this.#child)
    const survivors = this.#sweep() // after the drain: a grandchild may be printing the reason right now
    if (this.#leader !== undefined) reaper.remove(this.#leader)
    return {
      startFailure: this.#failure,
      cause: this.#cause,
      rawCode: this.#rawCode,
      rawSignal: this.#rawSignal,
      uptimeMs: this.#uptimeMs,
      forced: this.#forced,
      abandoned: this.#abandoned,
      survivors,
      drainCut,
    }
  }

  /**
   * Records the descendants while their parents live: a process that clears its environment and leaves its session is known
   * only through its parent. Reads every process on the machine, so call it rarely.
   */
  recordFamily(): void {
    if (this.#leader !== undefined && this.alive) this.#seen = familyOf(this.#leader)
  }

  /** Ends what the child left behind, including processes that left its session. Returns their pids. */
  #sweep(): readonly number[] {
    const { leader } = this
    if (leader === undefined) return []
    const found = new Set<number>()
    for (const entry of this.#seen) {
      if (entry.pid !== leader.pid && signalEntry(entry, 'SIGKILL')) found.add(entry.pid)
    }
    for (let round = 0; round < SWEEPS_MAX; round += 1) {
      const fresh = familyOf(leader).filter((entry) => !found.has(entry.pid))
      if (round === 0) signalGroup(leader, 'SIGKILL')
      for (const entry of fresh) {
        found.add(entry.pid)
        signalEntry(entry, 'SIGKILL')
      }
      if (fresh.length === 0) break
    }
    return [...found]
  }

  /** Reads until the pipes end or the limit is up, then releases them. True if the limit cut it off. */
  async #drain(child: ChildProcess): Promise<boolean> {
    const { clock, limits } = this.#spec
    const outputs = [child.stdout, child.stderr].filter((stream) => stream != null) // there are none if no descriptor was free
    const channel = channelOf(child)
    const byClock = { pause: (ms: number, signal?: AbortSignal) => pause(clock, ms, signal) }
    const drained = await within(Promise.all(outputs.map(ended)), limits.drainMs, byClock)
    // A termination error is in the pipe before the exit. A grandchild that merely inherited the pipe is not waited for.
    if (channel !== undefined) await within(ended(channel), Math.min(limits.drainMs, CHANNEL_DRAIN_MS), byClock)
    for (const stream of [child.stdin, channel, ...outputs]) {
      stream?.removeAllListeners('data') // later output is ignored
      stream?.destroy()
    }
    if (child.connected) child.disconnect()
    child.removeAllListeners() // I4: nothing is left
    child.on('error', ignoreBrokenPipe) // catches a late error of the released handle
    return drained === undefined
  }

  async #climb(gentle: boolean): Promise<void> {
    const { limits, clock } = this.#spec
    const exit = this.#exitSignal.signal
    const { leader } = this
    if (leader === undefined || exit.aborted) return this.#exited.promise
    this.recordFamily()
    if (gentle && this.#spec.stdin === 'pipe') {
      this.#child?.stdin?.end() // I2: the first step of stopping
      await pause(clock, limits.stdinMs, exit)
    }
    const isStopped = this.#seen.some(({ state }) => state === 'T') // only SIGKILL reaches a stopped process
    if (!exit.aborted && !isStopped) {
      signalGroup(leader, 'SIGTERM')
      await pause(clock, limits.termMs, exit)
    }
    if (exit.aborted) return undefined
    this.#forced = true
    const family = familyOf(leader) // before the leader dies: afterwards its children have another parent
    signalGroup(leader, 'SIGKILL')
    for (const entry of family) signalEntry(entry, 'SIGKILL')
    await pause(clock, limits.killMs, exit)
    if (exit.aborted) return undefined
    this.#abandoned = true
    this.#onExit(null, null)
    return undefined
  }
}

// ---- details ----

const CHANNEL_DRAIN_MS = 50 // one turn of a busy event loop
const FLOOD_BYTES = 16 * 1024 // a chunk of that size is followed by more
const SWEEPS_MAX = 5 // a process that forks during a sweep is found by the next one

function stdioOf(spec: ResolvedSpec): StdioOptions {
  const stdio: StdioOptions = [spec.stdin, 'pipe', 'pipe']
  if (spec.channel === 'fd3') stdio.push('pipe')
  if (spec.channel === 'ipc') stdio.push('ipc')
  return stdio
}

function channelOf(child: ChildProcess): Readable | undefined {
  const stream = child.stdio?.[3]
  return stream != null && 'read' in stream ? stream : undefined
}

/** One chunk per turn of the event loop: otherwise a flooded pipe is read 32 times in a row while everything else waits. */
function takeTurns(stream: Readable): void {
  stream.pause()
  setImmediate(() => stream.resume())
}

async function ended(stream: Readable): Promise<void> {
  if (stream.closed || stream.readableEnded || stream.destroyed) return
  await new Promise<void>((resolve) => {
    stream.once('close', resolve)
    stream.once('end', resolve)
  })
}

/** Pipes break when a child dies. Its exit reports that, not its pipes. */
function ignoreBrokenPipe(): void {}
