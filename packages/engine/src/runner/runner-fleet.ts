/** The parts that serve joined runners. A daemon that shares no store has none of them. */
import { type FleetKey, readFleetKey } from '@breakfall/wire/node'
import type { Log } from '../log.ts'
import type { EngineOptions } from '../options.ts'
import type { Secrets } from '../secrets.ts'
import type { Coordination, RunnerRegistry } from '../store/sharing.ts'
import { JoinedRunners } from './joined-runners.ts'
import { Registration } from './registration.ts'

type Joined = {
  readonly registry: RunnerRegistry
  readonly joined: JoinedRunners
  readonly key: FleetKey | undefined
}

export type RunnerFleet = Joined & { readonly registration: Registration }

type FleetParts = {
  readonly store: Coordination
  readonly dice: () => number
  readonly secrets: Secrets
}

type RegisteringParts = {
  readonly store: Coordination
  readonly log: Log
  readonly sweep: (runnerId: string) => Promise<boolean>
  /** Sessions may be due. */
  readonly onWork: () => void
}

/** The runners that joined. */
export function joinedRunners({ fleet = {} }: EngineOptions, parts: FleetParts): Joined | undefined {
  const { store, dice, secrets } = parts
  const { runners: registry, hints } = store
  if (registry === undefined) return undefined
  const key = fleet.keyFile === undefined ? undefined : readFleetKey(fleet.keyFile, { isMade: true })
  const joined = new JoinedRunners({
    registry,
    hints,
    key,
    dice,
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
  const { store, log, sweep, onWork } = parts
  const registration = new Registration({
    registry,
    hints: store.hints,
    key,
    log,
    now: () => store.now(),
    replaceAfterMs: fleet.replaceAfterMs,
    sweep,
    onChange: (runnerId) => {
      joined.changed(runnerId)
      onWork()
    },
  })
  return { registry, joined, registration, key }
}
