/** Where sessions are read: from the daemon, or from the journal on disk if none runs. */
import type { DaemonClient, SessionViewer } from '@breakfall/client'
import type { ResolvedConfig } from '../config/resolve.ts'
import { type DaemonPlace, findDaemon, oneShotClient } from '../daemon/find.ts'
import { refuseUnreadable } from '../process/state-folder.ts'
import type { Output } from '../terminal/output.ts'
import type { OfflineViewer } from './offline.ts'

export async function findViewer(
  place: DaemonPlace,
  modelName: string,
): Promise<{ kind: 'live'; viewer: DaemonClient } | { kind: 'offline'; viewer: OfflineViewer }> {
  const found = await findDaemon(place)
  if (found !== undefined) return { kind: 'live', viewer: oneShotClient(found.address) }
  refuseUnreadable(place.stateDir) // otherwise it would look as if there were no sessions
  const [{ readJournal }, { OfflineViewer }] = await Promise.all([
    import('@breakfall/engine/journal'),
    import('./offline.ts'),
  ])
  return { kind: 'offline', viewer: new OfflineViewer(readJournal(place.stateDir, modelName)) }
}

/** Says so if it is the journal. */
export async function viewerFor({
  config,
  out,
}: {
  readonly config: ResolvedConfig
  readonly out: Output
}): Promise<SessionViewer> {
  const { kind, viewer } = await findViewer(config, config.modelName ?? '')
  if (kind === 'offline') out.say(out.styleErr('dim', 'no daemon is running; reading the journal on disk'))
  return viewer
}
