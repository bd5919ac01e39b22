/** What sessions in memory are made with. */
import type { Policy } from '@breakfall/faults'
import type { PolicyInput } from '@breakfall/wire'
import type { Clock } from '../clock.ts'
import { type EngineOptions, resolvePolicy } from '../options.ts'
import type { Secrets } from '../secrets.ts'
import type { Store } from '../store/store.ts'
import type { MayHaveLeft } from './call-ledger.ts'
import { hasDiskSpace } from './disk-space.ts'
import { Feeds } from './feeds.ts'
import { Folders } from './folders.ts'
import type { Observer } from './observer.ts'
import { LeaseGate } from './ownership.ts'

export type SessionParts = {
  readonly store: Store
  /** Closed while the lease of this daemon may run out. */
  readonly gate: LeaseGate
  readonly clock: Clock
  readonly observer: Observer
  /** The events of sessions, for their readers. */
  readonly feeds: Feeds
  /** Which turns work in which folders. */
  readonly folders: Folders
  /** Values that must never be shown. */
  readonly secrets: Secrets
  readonly policyOf: (input: PolicyInput) => Policy
  readonly mayHaveLeft: MayHaveLeft
  /** Whether the journal's disk has room for more than the end of a turn. */
  readonly hasSpace: () => Promise<boolean>
}

export const sessionParts = (
  { stateDir, policy = {} }: EngineOptions,
  parts: Pick<SessionParts, 'store' | 'clock' | 'observer' | 'secrets' | 'mayHaveLeft'>,
): SessionParts => ({
  ...parts,
  gate: new LeaseGate(parts.store.lease, parts.clock),
  feeds: new Feeds(parts.store, parts.clock),
  folders: new Folders(),
  policyOf: (input) => resolvePolicy(policy, input),
  hasSpace: () => hasDiskSpace(stateDir),
})
