/** Reads at the start what this machine offers, and puts together what all boxes share. */
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'
import { Semaphore } from '@breakfall/faults/internal'
import { type Environment, homeFolder, inheritedDescriptors, replaceFile } from '@breakfall/supervisor/platform'
import { Fences } from './fences.ts'
import { parseMount } from './allowed-folders.ts'
import { systemClock } from '../lib/clock.ts'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { FifoPool } from '../exec/fifo-pool.ts'
import type { Pump } from '../exec/pump.ts'
import { SpawnQueue } from '../exec/spawn-queue.ts'
import { ToolchainFinder } from '../home/toolchain-finder.ts'
import type { RunnerHost } from './host.ts'
import { findCgroups } from '../isolation/cgroup-find.ts'
import { EtcCopy } from '../isolation/etc-copy.ts'
import { type HostLayout, readHostLayout } from '../isolation/host-layout.ts'
import { findProgram, USUAL_FOLDERS } from '../isolation/find-program.ts'
import { findKeyringPrefix } from '../isolation/keyring.ts'
import { type Isolation, probeIsolation } from '../isolation/probe.ts'
import { probeSharedNetwork } from '../isolation/shared-network.ts'
import { seccompProgram } from '../isolation/seccomp.ts'
import { PresetFinder } from '../network/preset-finder.ts'
import { INTERNET } from '../network/dial.ts'
import type { RunnerOptions } from './options.ts'
import type { Identity } from './identity.ts'

export async function readHost(
  options: RunnerOptions,
  stateDir: string,
  identity: Identity,
  pump: Pump,
  onExecEnd: RunnerHost['onExecEnd'],
): Promise<RunnerHost> {
  const environment = options.environment ?? process.env
  const path = environment['PATH'] ?? ''
  const home = homeOf(environment)
  const layout = readHostLayout(environment, home)
  const clock = options.clock ?? systemClock()
  const toolchains = new ToolchainFinder({ path, home, system: [...layout.folders, ...layout.links.keys()] }, () =>
    clock.monotonicMs(),
  )
  const allowed = (options.allowWorkspace ?? []).map((folder) => realpathSync(folder))
  toolchains.distrust(allowed)
  const allowProcess = options.allowIsolation?.includes('process') ?? false
  if (options.isolation === 'process' && !allowProcess)
    throw new Fault('invalid_request', {
      error: 'level "process" gives no isolation, so you must allow it: pass --allow-isolation process too.',
    })
  const seccomp = writeSeccomp(stateDir)
  const isolation = await probeIsolation({ layout, path, allowProcess, level: options.isolation, seccomp })
  const nsenter = findProgram('nsenter', path)
  const program = (name: string): string => {
    const found = findProgram(name, path, USUAL_FOLDERS)
    if (found === null)
      throw new Fault('process_start_failed', { facts: { name: 'the runner', detail: `${name} is not on the PATH` } })
    return found
  }
  return {
    runnerId: identity.runnerId,
    bootId: identity.bootId,
    keepers: { made: 0, idle: 0, hasCollected: false },
    stateDir,
    clock,
    toolchains,
    nothing: makeNothing(stateDir),
    programs: {
      setsid: program('setsid'),
      sleep: program('sleep'),
      git: findProgram('git', path, USUAL_FOLDERS),
      nsenter,
      perl: findProgram('perl', path, USUAL_FOLDERS),
      ip: findProgram('ip', path, [...USUAL_FOLDERS, '/usr/sbin', '/sbin']),
    },
    home: options.home ?? 'real',
    allowPorts: options.allowPorts ?? false,
    isolation,
    layout,
    etc: new EtcCopy({
      stateDir,
      files: layout.etc,
      afterMs: options.etcCopyAfterMs ?? RUNNER_DEFAULTS.etcCopyAfterMs,
      nowMs: () => clock.monotonicMs(),
    }),
    cgroups: findCgroups(`breakfall-${identity.runnerId}`),
    fifos: new FifoPool(join(stateDir, 'fifos'), program('mkfifo'), identity.bootId),
    queue: new SpawnQueue(RUNNER_DEFAULTS.spawnsMax),
    pump,
    fences: new Fences(stateDir, () => clock.now()),
    rules: {
      allowed,
      mounts: (options.allowMount ?? [])
        .map(parseMount)
        .map(({ path: folder, mode }) => ({ path: realpathSync(folder), mode })),
      stateDir,
      home,
    },
    environment,
    sharedNetwork: await canShareNetwork(isolation, nsenter, layout),
    keyring: await findKeyringPrefix(path),
    internet: { ...INTERNET, ...options.internet },
    presets: new PresetFinder(environment, home, () => clock.monotonicMs()),
    inherited: inheritedDescriptors(),
    captures: new Semaphore(RUNNER_DEFAULTS.capturesMax),
    limits: {
      retention: {
        ms: RUNNER_DEFAULTS.retentionMs,
        bytesPerBox: RUNNER_DEFAULTS.retentionBytesPerBox,
        recordsPerBox: RUNNER_DEFAULTS.recordsPerBox,
        recordMs: RUNNER_DEFAULTS.recordMs,
        ...options.retention,
      },
      checkpoints: {
        bytesMax: RUNNER_DEFAULTS.checkpointBytesMax,
        filesMax: RUNNER_DEFAULTS.checkpointFilesMax,
        fileBytesMax: RUNNER_DEFAULTS.checkpointFileBytesMax,
        ...options.checkpoints,
      },
      boxesMax: options.boxesMax ?? RUNNER_DEFAULTS.boxesMax,
      boxesKeptMax: options.boxesKeptMax ?? RUNNER_DEFAULTS.boxesKeptMax,
      bodySilenceMs: options.bodySilenceMs ?? RUNNER_DEFAULTS.bodySilenceMs,
    },
    machine: { cpus: availableParallelism(), memoryMb: Math.floor(totalmem() / 1024 / 1024) },
    onExecEnd,
  }
}

// ---- details ----

/** The runner user's home folder; `/` if there is none, which no box can have. */
function homeOf(environment: Environment): string {
  const home = homeFolder(environment) ?? '/'
  return existsSync(home) ? realpathSync(home) : home
}

async function canShareNetwork(
  { level, bwrap, disableUserns }: Isolation,
  nsenter: string | null,
  layout: HostLayout,
): Promise<boolean> {
  if (level !== 'bwrap' || bwrap === null || nsenter === null) return false
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0]
  return probeSharedNetwork({ bwrap, nsenter }, layout, { kind: 'userns', uid, gid, disableUserns })
}

/** Null if there is no program for this machine. */
function writeSeccomp(stateDir: string): string | null {
  const program = seccompProgram()
  if (program === null) return null
  const file = join(stateDir, 'seccomp.bpf')
  if (existsSync(file) && readFileSync(file).equals(program)) return file // a full disk must not keep the runner from starting
  replaceFile(file, program) // keepers of an earlier runner may be reading it
  return file
}

/** An empty file and an empty folder. */
function makeNothing(stateDir: string): { readonly file: string; readonly folder: string } {
  const [file, folder] = [join(stateDir, 'empty-file'), join(stateDir, 'empty-folder')]
  mkdirSync(folder, { recursive: true, mode: 0o755 })
  writeFileSync(file, '', { mode: 0o644 })
  return { file, folder }
}
