/** Starts a runner on a state folder, and ends it without ending what it started. */
import { availableParallelism, totalmem } from 'node:os'
import { realpathSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Fault } from '@breakfall/faults'
import type { IsolationLevel } from '@breakfall/wire'
import { createService, loadTokens } from '@breakfall/wire/node'
import { authorize } from './api/access.ts'
import { runnerRoutes } from './api/handlers.ts'
import { Boxes } from './box/boxes.ts'
import { type Clock, systemClock } from './clock.ts'
import { RUNNER_DEFAULTS } from './defaults.ts'
import { FifoPool } from './exec/fifo-pool.ts'
import { type Pump, startPump } from './exec/pump.ts'
import { startTimeOf } from './exec/process-table.ts'
import { SpawnQueue } from './exec/spawn-queue.ts'
import type { Retention, RunnerHost } from './host.ts'
import { findCgroups } from './isolation/cgroup-find.ts'
import { readHostLayout } from './isolation/host.ts'
import { findProgram, type Isolation, probeIsolation, USUAL_FOLDERS } from './isolation/probe.ts'
import { RunnerMetrics } from './metrics.ts'
import { makeFolder } from './state/disk.ts'
import { inheritedDescriptors } from './state/inherited.ts'
import { announce, type Identity, lockFolder, readIdentity, withdraw } from './state/identity.ts'

export type RunnerOptions = {
  readonly stateDir: string
  readonly tokenFile: string
  readonly port?: number | undefined
  readonly host?: string | undefined
  /** Host folders, with all below them, that may be workspaces. */
  readonly allowWorkspace?: readonly string[] | undefined
  readonly allowIsolation?: readonly 'process'[] | undefined
  /** Ends by itself after that long without a call and without an exec; null: never. */
  readonly idleExitMs?: number | null | undefined
  /** Host names besides loopback and the bound address under which it may be called. */
  readonly hosts?: readonly string[] | undefined
  readonly retention?: Partial<Retention> | undefined
  readonly boxesMax?: number | undefined
  readonly bodySilenceMs?: number | undefined
  /** `process` to do without a sandbox even where bwrap works; needs `allowIsolation`. */
  readonly isolation?: IsolationLevel | undefined
  /** The environment from which the allow-list is taken; the process's own where left out. */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined
  readonly clock?: Clock | undefined
  /** What went wrong in the background, in one line each. */
  readonly onTrouble?: ((line: string) => void) | undefined
  /** Called when it has ended by itself for being idle. */
  readonly onIdle?: (() => void) | undefined
}

export type Runner = {
  readonly url: string
  readonly runnerId: string
  readonly bootId: string
  readonly pid: number
  readonly isolation: { readonly level: IsolationLevel | 'none'; readonly because: string | null }
  readonly tokenFile: string
  /** Tells streams where to resume, leaves execs to their keepers, and stops serving. */
  close(): Promise<void>
}

export async function startRunner(options: RunnerOptions): Promise<Runner> {
  const stateDir = resolve(options.stateDir)
  makeFolder(stateDir)
  const lock = await lockFolder(stateDir)
  let pump: Pump | undefined
  try {
    const { machineBootId } = options.clock ?? systemClock()
    pump = await startPump({ stateDir, machineBootId, inherited: inheritedDescriptors(), onTrouble: troubles(options) })
    return await serve(options, stateDir, lock, pump)
  } catch (error) {
    await pump?.close()
    await lock.release()
    throw error
  }
}

// ---- details ----

function troubles({ onTrouble }: RunnerOptions): (what: string, error: unknown) => void {
  return (what, error) => onTrouble?.(`${what}: ${error instanceof Error ? error.message : String(error)}`)
}

async function serve(
  options: RunnerOptions,
  stateDir: string,
  lock: { release(): Promise<void> },
  pump: Pump,
): Promise<Runner> {
  const grants = loadTokens(options.tokenFile)
  const identity = readIdentity(stateDir)
  const metrics = new RunnerMetrics()
  const trouble = troubles(options)
  const host = await readHost(options, stateDir, identity, metrics, pump)
  const boxes = new Boxes(host, trouble)
  await boxes.recover()
  const closing = new AbortController()
  const idle = new IdleWatch(options.idleExitMs ?? null, host.clock, () => boxes.liveExecs())
  const routes = runnerRoutes({ identity, host, boxes, metrics, closing: closing.signal, onCall: () => idle.touch() })
  const service = createService({
    routes,
    authorize: (req, params) => authorize(grants, req, params),
    boundary: 'runner',
    hosts: options.hosts ?? [],
    onFault: (fault, call) => {
      metrics.refused(fault.category)
      if (fault.class === 'internal') trouble(`${call.method} ${call.url}`, fault)
    },
    onAnswer: ({ route, status, ms }) => metrics.answered(route, status, ms),
  })
  const { url } = await service.listen(options.port ?? 0, options.host ?? '127.0.0.1')
  const sweeper = setInterval(() => sweepAll(boxes, host, trouble), RUNNER_DEFAULTS.sweepMs)
  sweeper.unref()
  const { runnerId, bootId, version } = identity
  try {
    announce(stateDir, { url, runnerId, pid: process.pid, startTime: startTimeOf(process.pid), bootId, version })
  } catch (error) {
    // A full disk must not keep it from serving: removing a box is what makes room. Whoever started it knows the address.
    withdraw(stateDir)
    trouble('the address could not be written into the state folder', error)
  }

  let closed: Promise<void> | undefined
  const close = (): Promise<void> => {
    closed ??= (async () => {
      closing.abort()
      idle.stop()
      clearInterval(sweeper)
      withdraw(stateDir)
      await service.close({ graceMs: RUNNER_DEFAULTS.shutdownGraceMs })
      for (const box of boxes.all()) {
        for (const exec of box.execs.live.values()) exec.release()
        await box.keepers.close()
        box.reservations.close()
      }
      host.cgroups.closeAll() // those with execs in them stay, and are found again
      await pump.close() // before another runner may open the same pipes
      await lock.release()
    })()
    return closed
  }
  idle.start(() => void close().then(() => options.onIdle?.()))
  return {
    url,
    runnerId,
    bootId,
    pid: process.pid,
    isolation: { level: host.isolation.level ?? 'none', because: host.isolation.because },
    tokenFile: options.tokenFile,
    close,
  }
}

async function readHost(
  options: RunnerOptions,
  stateDir: string,
  identity: Identity,
  metrics: RunnerMetrics,
  pump: Pump,
): Promise<RunnerHost> {
  const environment = options.environment ?? process.env
  const path = environment['PATH'] ?? ''
  const layout = readHostLayout(environment)
  const allowProcess = options.allowIsolation?.includes('process') ?? false
  if (options.isolation === 'process' && !allowProcess)
    throw new Fault('invalid_request', {
      error: 'level process is no isolation, so it must be allowed too: --allow-isolation process',
    })
  const isolation: Isolation = await probeIsolation({
    layout,
    path,
    allowProcess,
    level: options.isolation,
  })
  const program = (name: string): string => {
    const found = findProgram(name, path, USUAL_FOLDERS)
    if (found === null)
      throw new Fault('process_start_failed', { facts: { name: 'the runner', detail: `${name} is not on the PATH` } })
    return found
  }
  return {
    runnerId: identity.runnerId,
    bootId: identity.bootId,
    keepers: { made: 0, idle: 0 },
    stateDir,
    clock: options.clock ?? systemClock(),
    isolation,
    layout,
    cgroups: findCgroups(`breakfall-${identity.runnerId}`),
    fifos: new FifoPool(join(stateDir, 'fifos'), program('mkfifo'), identity.bootId),
    queue: new SpawnQueue(RUNNER_DEFAULTS.spawnsMax),
    pump,
    rules: { allowed: (options.allowWorkspace ?? []).map((folder) => realpathSync(folder)), stateDir },
    environment,
    setsid: program('setsid'),
    sleep: program('sleep'),
    inherited: inheritedDescriptors(),
    retention: {
      ms: RUNNER_DEFAULTS.retentionMs,
      bytesPerBox: RUNNER_DEFAULTS.retentionBytesPerBox,
      recordsPerBox: RUNNER_DEFAULTS.recordsPerBox,
      recordMs: RUNNER_DEFAULTS.recordMs,
      ...options.retention,
    },
    boxesMax: options.boxesMax ?? RUNNER_DEFAULTS.boxesMax,
    bodySilenceMs: options.bodySilenceMs ?? RUNNER_DEFAULTS.bodySilenceMs,
    machine: { cpus: availableParallelism(), memoryMb: Math.floor(totalmem() / 1024 / 1024) },
    onExecEnd: (cause, durationMs, bytes) => metrics.execEnded(cause, durationMs, bytes),
  }
}

function sweepAll(boxes: Boxes, host: RunnerHost, trouble: (what: string, error: unknown) => void): void {
  for (const box of boxes.all()) {
    try {
      box.execs.sweep(host.clock.now(), host.retention)
    } catch (error) {
      trouble(`retention of box ${box.id}`, error)
    }
  }
}

/** Ends a runner that nobody needs: no call and no exec for a while. */
class IdleWatch {
  readonly #afterMs: number | null
  readonly #clock: Clock
  readonly #busy: () => number
  #lastMs: number
  #timer: NodeJS.Timeout | undefined

  constructor(afterMs: number | null, clock: Clock, busy: () => number) {
    this.#afterMs = afterMs
    this.#clock = clock
    this.#busy = busy
    this.#lastMs = clock.monotonicMs()
  }

  touch(): void {
    this.#lastMs = this.#clock.monotonicMs()
  }

  start(onIdle: () => void): void {
    const afterMs = this.#afterMs
    if (afterMs === null) return
    this.#timer = setInterval(
      () => {
        if (this.#busy() > 0) this.touch()
        else if (this.#clock.monotonicMs() - this.#lastMs >= afterMs) onIdle()
      },
      Math.max(20, Math.min(5_000, afterMs / 4)),
    )
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
