/** Starts a runner on a state folder, and ends it without ending what it started. */
import { resolve } from 'node:path'
import { messageOf } from '@breakfall/faults/internal'
import type { IsolationLevel } from '@breakfall/wire'
import { createService, loadTokens } from '@breakfall/wire/node'
import { type FileLock, inheritedDescriptors } from '@breakfall/supervisor/platform'
import { authorize } from './access.ts'
import { runnerRoutes } from './handlers.ts'
import { Boxes } from '../box/boxes.ts'
import { systemClock } from '../lib/clock.ts'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { type Pump, startPump } from '../exec/pump.ts'
import { startTimeOf } from '../exec/process-table.ts'
import type { RunnerHost } from '../host/host.ts'
import { IdleExit } from './idle-exit.ts'
import { RunnerMetrics } from './metrics.ts'
import type { RunnerOptions } from '../host/options.ts'
import { readHost } from '../host/read-host.ts'
import { startJoining } from '../join/start-joining.ts'
import { makeFolder } from '../lib/disk.ts'
import { announce, lockFolder, readIdentity, withdraw } from '../host/identity.ts'

export type Runner = {
  readonly url: string
  readonly runnerId: string
  readonly bootId: string
  readonly pid: number
  readonly isolation: { readonly level: IsolationLevel | 'none'; readonly because: string | null }
  readonly tokenFile: string
  /** Tells clients where to resume their streams, leaves execs to their keepers, and stops serving. */
  close(): Promise<void>
}

export async function startRunner(options: RunnerOptions): Promise<Runner> {
  const stateDir = resolve(options.stateDir)
  makeFolder(stateDir)
  const lock = lockFolder(stateDir)
  let pump: Pump | undefined
  try {
    const { machineBootId } = options.clock ?? systemClock()
    pump = await startPump({
      stateDir,
      machineBootId,
      inherited: inheritedDescriptors(),
      onProblem: problemReporter(options),
    })
    return await serve(options, stateDir, lock, pump)
  } catch (error) {
    await pump?.close()
    lock.release()
    throw error
  }
}

// ---- details ----

function problemReporter({ onProblem }: RunnerOptions): (what: string, error: unknown) => void {
  return (what, error) => onProblem?.(`${what}: ${messageOf(error)}`)
}

async function serve(options: RunnerOptions, stateDir: string, lock: FileLock, pump: Pump): Promise<Runner> {
  const grants = loadTokens(options.tokenFile)
  const identity = readIdentity(stateDir)
  const metrics = new RunnerMetrics()
  const onProblem = problemReporter(options)
  const host = await readHost(options, stateDir, identity, pump, (...end) => metrics.execEnded(...end))
  const boxes = new Boxes(host, onProblem)
  await boxes.recover()
  const closing = new AbortController()
  const idle = new IdleExit(options.idleExitMs ?? null, host.clock, {
    isBusy: () => boxes.isBusy,
    isGone: () => !lock.isThere(), // the folder was removed, or is another one
  })
  const routes = runnerRoutes({
    identity,
    host,
    boxes,
    metrics,
    closing: closing.signal,
    needsEpoch: options.needsEpoch ?? options.join !== undefined,
    onCall: () => idle.touch(),
  })
  const service = createService({
    routes,
    authorize: (req, params) => authorize(grants, req, params),
    boundary: 'runner',
    hosts: options.hosts ?? [],
    onFault: (fault, call) => {
      metrics.refused(fault.category)
      if (fault.class === 'internal') onProblem(`${call.method} ${call.url}`, fault)
    },
    onAnswer: ({ route, status, ms }) => metrics.answered(route, status, ms),
  })
  const { url, localUrl } = await service.listen(options.port ?? 0, options.host ?? '127.0.0.1')
  const sweeper = setInterval(() => sweepAll(boxes, host, onProblem), RUNNER_DEFAULTS.sweepMs)
  sweeper.unref()
  const { runnerId, bootId, version } = identity
  try {
    announce(stateDir, {
      url: localUrl,
      runnerId,
      pid: process.pid,
      startTime: startTimeOf(process.pid),
      bootId,
      version,
    })
  } catch (error) {
    // A full disk must not keep it from serving: removing a box makes room. The parent process knows the address anyway.
    withdraw(stateDir)
    onProblem('cannot write the address into the state folder', error)
  }

  const joining =
    options.join === undefined
      ? undefined
      : startJoining(options.join, {
          url,
          tokenFile: options.tokenFile,
          identity,
          host,
          boxes,
          onProblem: (line) => options.onProblem?.(line),
        })

  let closed: Promise<void> | undefined
  const close = (): Promise<void> => {
    closed ??= (async () => {
      closing.abort()
      await joining?.close()
      idle.stop()
      clearInterval(sweeper)
      if (lock.isThere()) withdraw(stateDir) // or it is that of another runner
      await service.close({ graceMs: RUNNER_DEFAULTS.shutdownGraceMs })
      for (const box of boxes.all()) {
        for (const exec of box.execs.live.values()) exec.release()
        box.guardWatch?.close()
        box.restarts.close()
        box.ports.closeAll()
        box.names?.close()
        box.checkpoints?.close()
        await box.keepers.close()
        box.reservations.close()
      }
      await boxes.emptied(RUNNER_DEFAULTS.shutdownGraceMs)
      host.fences.close()
      host.cgroups.closeAll() // groups with live execs stay, and the next runner finds them
      await host.etc.close()
      await pump.close() // another runner may open the same pipes only after this
      lock.release()
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

function sweepAll(boxes: Boxes, host: RunnerHost, onProblem: (what: string, error: unknown) => void): void {
  try {
    boxes.sweepFences()
  } catch (error) {
    onProblem('cannot rewrite the fences', error)
  }
  for (const box of boxes.all()) {
    try {
      box.execs.sweep(host.clock.now(), host.limits.retention)
      if (box.state === 'stopped') box.reservations.close() // it uses no descriptor
    } catch (error) {
      onProblem(`cannot apply retention to box ${box.id}`, error)
    }
  }
}
