/** What sessions in memory are made with. */
import { statfs } from 'node:fs/promises'
import type { Policy } from '@breakfall/faults'
import type { PolicyInput } from '@breakfall/wire'
import type { Clock } from '../clock.ts'
import { type EngineOptions, resolvePolicy } from '../options.ts'
import type { Secrets } from '../secrets.ts'
import type { Store } from '../store/store.ts'
import { FREE_MIB } from '../turn/wait.ts'
import type { MayHaveLeft } from './call-ledger.ts'
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

// ---- details ----

const FREE_BYTES = FREE_MIB * 1024 * 1024 // with less, the disk would be full again at once
const FREE_SHARE = 1 / 4 // a small disk never has that much free

async function hasDiskSpace(folder: string): Promise<boolean> {
  try {
    const { bavail, blocks, bsize } = await statfs(folder)
    return bavail * bsize >= Math.min(FREE_BYTES, blocks * bsize * FREE_SHARE)
  } catch {
    // A disk that cannot even be queried is not ready; the parked turn already says why it waits.
    return false
  }
}
