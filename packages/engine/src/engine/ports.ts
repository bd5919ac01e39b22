/** Everything the engine needs from outside. Injected, and replaceable in tests. */
import type { EarlierFolders } from '../runner/earlier-folders.ts'
import type { Policy } from '@breakfall/faults'
import type { AnswerRequest, TryEvent, TryOptions } from '@breakfall/model'
import type { AgentInput, PolicyInput } from '@breakfall/wire'
import type { Log } from '../log.ts'
import type { EngineLimits } from '../options.ts'
import type { Providers } from '../providers/providers.ts'
import type { OutsideTools } from '../outside/outside-tools.ts'
import type { Runners } from '../runner/runners.ts'
import type { Secrets } from '../secrets.ts'
import type { Store } from '../store/store.ts'
import type { BoxRoom } from './box-room.ts'
import type { Feeds } from './feeds.ts'
import type { TurnTraces } from '../telemetry/turn-traces.ts'
import type { Folders } from './folders.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Observer } from './observer.ts'
import type { Gate } from './ownership.ts'
import type { Pacing } from './pacing.ts'

export type Ports = {
  readonly store: Store
  /** Closed while the lease of this daemon may run out. */
  readonly gate: Gate
  /** The events of sessions, for their readers. */
  readonly feeds: Feeds
  readonly now: () => number
  readonly dice: () => number
  readonly policyOf: (input: PolicyInput) => Policy
  /** The model servers of the sessions. Their configuration is read again for every answer. */
  readonly providers: Providers
  /** One attempt at an answer. The engine decides what follows. */
  readonly tryAnswer: (request: AnswerRequest, options: TryOptions) => AsyncIterable<TryEvent>
  readonly runner: Runners
  /** Tools from outside. */
  readonly outside: OutsideTools
  readonly room: BoxRoom
  /** Shared by parked turns. */
  readonly pacing: Pacing
  /** Which turns work in which folders. */
  readonly folders: Folders
  /** Values that must never be shown. */
  readonly secrets: Secrets
  /** Reads the configuration again. */
  readonly readConfig: () => Promise<unknown>
  /** Changes with the runner's address, token and level, by the configuration that was read last. */
  readonly runnerFingerprint: () => string
  readonly stateDir: string
  readonly earlierFolders: Pick<EarlierFolders, 'signed'>
  readonly limits: EngineLimits
  /** What the configuration says to the model in every session. */
  readonly agent: () => AgentInput
  /** The runner is on this machine, so the daemon sees the folders that boxes use. */
  readonly isRunnerHere: () => boolean
  readonly log: Log
  readonly observer: Observer
  readonly traces: TurnTraces
  /** Does nothing, except in tests that kill the process at a named point. */
  readonly failpoint: (name: string) => void
  readonly lifecycle: Lifecycle
}
