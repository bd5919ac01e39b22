/** Builds what reaches runners, and what serves those that join: a daemon that shares no store has none of that. */
import { type FleetKey, readFleetKey } from '@breakfall/wire/node'
import type { Log } from '../log.ts'
import type { Clock } from '../clock.ts'
import type { ConfigReader } from '../live-config.ts'
import type { EngineLimits, EngineOptions, RunnerConfig } from '../options.ts'
import type { Secrets } from '../secrets.ts'
import type { Coordination, RunnerRegistry } from '../store/sharing.ts'
import { EarlierFolders } from './earlier-folders.ts'
import { RunnerEndpoint } from './endpoint.ts'
import { JoinedRunners } from './joined-runners.ts'
import { Registration } from './registration.ts'
import { Runners } from './runners.ts'

type Joined = {
  readonly registry: RunnerRegistry
  readonly joined: JoinedRunners
  readonly key: FleetKey | undefined
}

export type RunnerFleet = Joined & { readonly registration: Registration }

type RunnerParts = {
  readonly config: ConfigReader
  readonly store: Coordination
  readonly clock: Clock
  readonly limits: EngineLimits
  readonly secrets: Secrets
  readonly log: Log
}

type RegisteringParts = {
  readonly store: Coordination
  readonly clock: Clock
  readonly log: Log
  readonly sweep: (runnerId: string) => Promise<boolean>
  /** Sessions may be due. */
  readonly onWork: () => void
}

export function runnersFor(
  options: EngineOptions,
  parts: RunnerParts,
): { readonly runners: Runners; readonly endpoint: RunnerEndpoint; readonly joined: Joined | undefined } {
  const { config, secrets, log, clock, limits } = parts
  const { stateDir, runnerProgram: program, runnerIdleExitMs: idleExitMs } = options
  const current = async (): Promise<RunnerConfig> => (await config.read()).runner
  const endpoint = new RunnerEndpoint({ stateDir, program, idleExitMs, config: current })
  endpoint.found.add(({ url, runnerId, token }) => {
    secrets.set('runner', [token])
    log.info({ runner: url, runnerId }, 'runner found')
  })
  const joined = joinedRunners(options, parts)
  const folders = new EarlierFolders(stateDir)
  const runners = new Runners({
    endpoint,
    joined: joined?.joined,
    config: () => config.last.runner,
    signed: (box, createdAt) => folders.signed(box, createdAt),
    clock,
    limits,
    log,
  })
  return { runners, endpoint, joined }
}

/** The runners that joined. */
function joinedRunners({ fleet = {} }: EngineOptions, parts: RunnerParts): Joined | undefined {
  const { store, clock, secrets } = parts
  const { runners: registry, hints } = store
  if (registry === undefined) return undefined
  const key = fleet.keyFile === undefined ? undefined : readFleetKey(fleet.keyFile, { isMade: true })
  const joined = new JoinedRunners({
    registry,
    hints,
    key,
    clock,
    onToken: (runnerId, token) => secrets.set(`runner ${runnerId}`, [token]),
  })
  return { registry, joined, key }
}

/** The same, with how runners join. */
export function runnerFleet(
  { fleet = {} }: EngineOptions,
  { registry, joined, key }: Joined,
  parts: RegisteringParts,
): RunnerFleet {
  const { store, clock, log, sweep, onWork } = parts
  const registration = new Registration({
    registry,
    hints: store.hints,
    key,
    log,
    clock,
    replaceAfterMs: fleet.replaceAfterMs,
    sweep,
    onChange: (runnerId) => {
      joined.changed(runnerId)
      onWork()
    },
  })
  return { registry, joined, registration, key }
}
