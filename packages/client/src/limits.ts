/** When a client gives up. */
import type { RetryPolicy } from '@breakfall/faults/caller'

/** About a minute of attempts: enough for a service manager to restart the daemon. A client parks nothing and compacts nothing. */
export const RECONNECT_POLICY: RetryPolicy = {
  attemptsMax: 12,
  backoffMs: 250,
  patienceMs: 120_000,
  failuresMax: 60,
  waitMsMax: 30 * 60_000,
  park: 'auto',
  parkMsMax: 0,
  compactionsMax: 0,
}

/** An event stream has lost nothing while its daemon is away, so it keeps looking for it. */
export const FOREVER: RetryPolicy = {
  ...RECONNECT_POLICY,
  attemptsMax: Number.POSITIVE_INFINITY,
  waitMsMax: Number.POSITIVE_INFINITY,
}

export const CALL_MS = 120_000 // creating a session may wait for a sandbox that is just waking up
export const LIVENESS_MS = 60_000 // four missed heartbeats

/** A stream can break for many reasons; when the next one does not open either, the daemon is unreachable. */
export const UNREACHABLE_ATTEMPTS = 2
