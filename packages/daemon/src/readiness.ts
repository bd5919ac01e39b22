/** Whether the daemon can take work now, and if not, why. */
import type { DaemonReady } from '@breakfall/wire'
import type { Store } from './store/store.ts'

export async function readiness(
  store: Store,
  { hasRunner, isClosing }: { readonly hasRunner: boolean; readonly isClosing: boolean },
): Promise<DaemonReady> {
  const journal = await store.listSessions({ limit: 1 }).then(
    () => 'ok',
    () => 'failed', // the caller that hit the problem logged the reason
  )
  const isHeld = store.lease.isHeld()
  const checks = {
    journal,
    runner: hasRunner ? 'ok' : 'not_connected',
    store: store.isShared ? 'postgres' : 'sqlite',
    lease: isHeld ? 'held' : 'suspended',
    hints: store.hints.isUp ? 'ok' : 'down',
    closing: isClosing,
  }
  return { status: journal === 'ok' && isHeld && !isClosing ? 'ready' : 'not_ready', checks }
}
