/** Everything that the engine needs from outside, injected, so that a test can stand in for any of it. */
import type { Policy } from '@breakfall/faults'
import type { AnswerRequest, TryEvent, TryOptions } from '@breakfall/model'
import type { PolicyInput, SessionEvent } from '@breakfall/wire'
import type { Logger } from 'pino'
import type { LocalModel } from '../model-server.ts'
import type { DaemonLimits, ModelConfig } from '../options.ts'
import type { RunnerEndpoint } from '../runner/endpoint.ts'
import type { Secrets } from '../secrets.ts'
import type { Store } from '../store/store.ts'
import type { Pacing } from './pacing.ts'

export type Ports = {
  readonly store: Store
  readonly now: () => number
  readonly dice: () => number
  readonly policyOf: (input: PolicyInput) => Policy
  readonly modelName: () => string
  /** The model's configuration as it is now: read again for every answer. */
  readonly model: () => Promise<ModelConfig>
  /** One try at an answer: what follows is ours to decide. */
  readonly tryAnswer: (request: AnswerRequest, options: TryOptions) => AsyncIterable<TryEvent>
  /** The model server that this daemon runs, if it runs one. */
  readonly localModel: LocalModel | undefined
  readonly runner: RunnerEndpoint
  /** What parked turns share. */
  readonly pacing: Pacing
  /** What this daemon knows and never says. */
  readonly secrets: Secrets
  /** Changes whenever the configuration or a token does. */
  readonly fingerprint: () => Promise<string>
  /** The fingerprint of what was last read, and used. */
  readonly lastFingerprint: () => string
  readonly stateDir: string
  readonly limits: DaemonLimits
  readonly systemPrompt: string
  readonly log: Logger
  /** Told of every event, once it is committed. */
  readonly onEvent: (event: SessionEvent) => void
  /** Does nothing, except in tests that kill the process at a named point. */
  readonly failpoint: (name: string) => void
  /** True once the daemon is going down: turns are handed over instead of worked on. */
  readonly isClosing: () => boolean
}
