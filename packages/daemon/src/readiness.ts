/** Whether the daemon can take work now, and if not, why. */
import type { DaemonReady } from '@breakfall/wire'
import type { Store } from '@breakfall/engine'

export async function readiness(
  store: Store,
  { hasRunner, isClosing }: { readonly hasRunner: boolean; readonly isClosing: boolean },
): Promise<DaemonReady> {
  const isHeld = store.lease.isHeld()
  const isShared = !store.lease.isEndless
  const journal = isShared ? (isHeld ? 'ok' : 'failed') : await journalState(store)
  const checks = {
    journal,
    runner: hasRunner ? 'ok' : 'not_connected',
    store: isShared ? 'postgres' : 'sqlite',
    lease: isHeld ? 'held' : 'suspended',
    hints: store.hints.isUp ? 'ok' : 'down',
    closing: isClosing,
  }
  return { status: journal === 'ok' && isHeld && !isClosing ? 'ready' : 'not_ready', checks }
}

// ---- details ----

/** A shared store is not asked: its lease says whether it answers, and a load balancer must not wait for a database that is away. */
const journalState = (store: Store): Promise<'ok' | 'failed'> =>
  store.listSessions({ limit: 1 }).then(
    () => 'ok',
    () => 'failed', // the caller that hit the problem logged the reason
  )
