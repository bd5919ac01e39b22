/** The parts that serve joined runners. A daemon that shares no store has none of them. */
import { type FleetKey, readFleetKey } from '@breakfall/wire/node'
import type { Logger } from 'pino'
import type { DaemonOptions } from '../options.ts'
import type { Secrets } from '../secrets.ts'
import type { RunnerRegistry } from '../store/sharing.ts'
import type { Store } from '../store/store.ts'
import { JoinedRunners } from './joined-runners.ts'
import { Registration } from './registration.ts'

export type RunnerFleet = {
  readonly registry: RunnerRegistry
  readonly joined: JoinedRunners
  readonly registration: Registration
  readonly key: FleetKey | undefined
}

type FleetParts = {
  readonly store: Store
  readonly log: Logger
  readonly dice: () => number
  readonly secrets: Secrets
  readonly sweep: (runnerId: string) => Promise<boolean>
  /** Sessions may be due. */
  readonly onWork: () => void
}

export function joinedRunners({ fleet = {} }: DaemonOptions, parts: FleetParts): RunnerFleet | undefined {
  const { store, log, dice, secrets, sweep, onWork } = parts
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
  const registration = new Registration({
    registry,
    hints,
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
