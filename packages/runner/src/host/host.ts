/** What all boxes of a runner share: the machine as read at the start, the clock, pipes and the spawn queue. */
import type { Semaphore } from '@breakfall/faults/internal'
import type { Clock } from '../lib/clock.ts'
import type { FifoPool } from '../exec/fifo-pool.ts'
import type { Pump } from '../exec/pump.ts'
import type { SpawnQueue } from '../exec/spawn-queue.ts'
import type { Cgroups } from '../isolation/cgroup.ts'
import type { ToolchainFinder } from '../home/toolchain-finder.ts'
import type { EtcCopy } from '../isolation/etc-copy.ts'
import type { HostLayout } from '../isolation/host-layout.ts'
import type { Isolation } from '../isolation/probe.ts'
import type { PresetFinder } from '../network/preset-finder.ts'
import type { Internet } from '../network/dial.ts'
import type { FolderRules } from './allowed-folders.ts'
import type { CheckpointLimits, Retention } from './options.ts'
import type { Fences } from './fences.ts'

export type RunnerHost = {
  readonly runnerId: string
  readonly bootId: string
  readonly stateDir: string
  readonly clock: Clock
  readonly isolation: Isolation
  readonly layout: HostLayout
  readonly etc: Pick<EtcCopy, 'current' | 'close'>
  readonly toolchains: ToolchainFinder
  /** What covers credentials in a window. */
  readonly nothing: { readonly file: string; readonly folder: string }
  readonly programs: Programs
  readonly home: 'real' | 'private'
  /** Callers may open ports of boxes on this machine. */
  readonly allowPorts: boolean
  readonly cgroups: Cgroups
  readonly fifos: FifoPool
  readonly queue: SpawnQueue
  readonly pump: Pump
  readonly fences: Fences
  readonly rules: FolderRules
  readonly environment: Readonly<Record<string, string | undefined>>
  /** How many keepers this process has made, how many of them are idle, and whether PID 1 was seen to collect what they left. */
  readonly keepers: { made: number; idle: number; hasCollected: boolean }
  /** The words that start a keeper with an empty session keyring. */
  readonly keyring: readonly string[]
  /** Sandboxes of a box can share a network here. */
  readonly sharedNetwork: boolean
  /** What boxes with a list of names reach. */
  readonly internet: Internet
  readonly presets: Pick<PresetFinder, 'names'>
  /** Descriptors that children must not inherit. */
  readonly inherited: readonly number[]
  readonly limits: RunnerLimits
  /** Lets a few checkpoints be taken at once. */
  readonly captures: Semaphore
  readonly machine: { readonly cpus: number; readonly memoryMb: number }
  readonly onExecEnd: (cause: string, durationMs: number, bytes: number) => void
}

export type RunnerLimits = {
  readonly retention: Retention
  readonly checkpoints: CheckpointLimits
  /** Running boxes per prefix. */
  readonly boxesMax: number
  /** Stopped boxes per prefix. */
  readonly boxesKeptMax: number
  /** How long an upload may be silent. */
  readonly bodySilenceMs: number
}

/** Paths of programs of this machine; null for a missing program. */
export type Programs = {
  readonly setsid: string
  readonly sleep: string
  readonly git: string | null
  readonly nsenter: string | null
  readonly perl: string | null
  readonly ip: string | null
}
