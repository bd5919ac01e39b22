/** What a store answers that no other daemon shares: its lease never ends, no hints or commands arrive, and no runner registers. */
import { newId } from '@breakfall/wire/node'
import { Fault } from '@breakfall/faults'
import type { Coordination, Hints, Lease } from './sharing.ts'

export const singleDaemonCoordination = (now = Date.now): Coordination => ({
  connections: () => ({ size: 0, free: 0, waiting: 0 }),
  lease: endlessLease(newId()),
  hints: NO_HINTS,
  runners: undefined,
  now,
  submit: () => Promise.reject(new Fault('other', { boundary: 'journal', errorRaw: 'every session is our own' })),
  withdraw: () => Promise.resolve(false),
  getCommand: () => Promise.resolve(undefined),
  openCommands: () => Promise.resolve([]),
  heldSessions: () => Promise.resolve([]),
  daemons: () => Promise.resolve([]),
  drainDaemon: () => Promise.resolve(false),
})

// ---- details ----

const endlessLease = (bootId: string): Lease => ({
  isEndless: true,
  bootId,
  name: '',
  isHeld: () => true,
  remainingMs: () => Number.POSITIVE_INFINITY,
  fleet: { live: 1, held: 0 },
  on: () => () => undefined,
  announce: () => Promise.resolve(),
  drain: () => Promise.resolve(),
})

const NO_HINTS: Hints = {
  isUp: true,
  send: () => undefined,
  on: () => () => undefined,
  watch: () => () => undefined,
}
