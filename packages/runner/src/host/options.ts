/** What a runner is started with. */
import type { IsolationLevel } from '@breakfall/wire'
import type { Clock } from '../lib/clock.ts'
import type { Internet } from '../network/dial.ts'

export type RunnerOptions = {
  readonly stateDir: string
  readonly tokenFile: string
  readonly port?: number | undefined
  readonly host?: string | undefined
  /** Host folders that may be workspaces, with everything below them. */
  readonly allowWorkspace?: readonly string[] | undefined
  /** Host folders that boxes may have mounted, with everything below them: `DIR`, or `DIR:rw`. */
  readonly allowMount?: readonly string[] | undefined
  /** The home folder of boxes that do not say. */
  readonly home?: 'real' | 'private' | undefined
  /** Callers may open ports of boxes on the loopback of this machine. */
  readonly allowPorts?: boolean | undefined
  readonly allowIsolation?: readonly 'process'[] | undefined
  /** Exits after this long without a call and without an exec; null: never. */
  readonly idleExitMs?: number | null | undefined
  /** Host names that clients may use, besides loopback and the bound address. */
  readonly hosts?: readonly string[] | undefined
  readonly retention?: Partial<Retention> | undefined
  /** Running boxes per prefix. */
  readonly boxesMax?: number | undefined
  /** Stopped boxes per prefix. */
  readonly boxesKeptMax?: number | undefined
  /** Smaller budgets of checkpoints than the defaults. */
  readonly checkpoints?: Partial<CheckpointLimits> | undefined
  readonly bodySilenceMs?: number | undefined
  /** Registers with the daemons of a fleet. */
  readonly join?: JoinOptions | undefined
  /** Refuses changes without an epoch: for a runner that several daemons use. */
  readonly needsEpoch?: boolean | undefined
  /** `process` runs without a sandbox even if bwrap works; needs `allowIsolation`. */
  readonly isolation?: IsolationLevel | undefined
  /** The environment that the allow-list picks from; by default the process's own. */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined
  readonly clock?: Clock | undefined
  /** When /etc is copied for boxes, after it was first needed. */
  readonly etcCopyAfterMs?: number | undefined
  /** How names are resolved and addresses dialled for boxes with a list of names. */
  readonly internet?: Partial<Internet> | undefined
  /** Receives one line for each failure in the background. */
  readonly onProblem?: ((line: string) => void) | undefined
  /** Called after the runner has exited because it was idle. */
  readonly onIdle?: (() => void) | undefined
}

export type JoinOptions = {
  readonly urls: readonly string[]
  readonly advertised?: Advertised | undefined
  readonly labels?: readonly string[] | undefined
  /** Allowed folders that have the same files at every runner. */
  readonly sharedWorkspaces?: readonly string[] | undefined
  /** Ends every exec after this long without an answer from a daemon. */
  readonly stopWhenAloneMs?: number | undefined
  readonly onJoined?: ((daemon: string) => void) | undefined
}

export type Advertised = {
  readonly url?: string | undefined
  /** Prints the address, for a runner behind a mapping that only its host knows. Run again until daemons reach the runner. */
  readonly command?: readonly string[] | undefined
}

export type CheckpointLimits = {
  /** Of the store of a box. */
  readonly bytesMax: number
  readonly filesMax: number
  readonly fileBytesMax: number
}

export type Retention = {
  readonly ms: number
  readonly bytesPerBox: number
  readonly recordsPerBox: number
  readonly recordMs: number
}
