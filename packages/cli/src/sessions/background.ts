/** The background processes that still run: asked of the daemon, or read from the folder of this machine's runner if there is none. */
import { join } from 'node:path'
import type { DaemonClient, Session } from '@breakfall/client'
import type { ResolvedConfig } from '../config/resolve.ts'
import type { RunningProcess } from '../render/processes.ts'

type Place = Pick<ResolvedConfig, 'runner' | 'stateDir'>

/** Of one session. `client`: undefined if no daemon answers. */
export async function processesOfSession(
  { id: sessionId, boxId }: Pick<Session, 'id' | 'boxId'>,
  client: DaemonClient | undefined,
  place: Place,
): Promise<readonly RunningProcess[]> {
  if (client === undefined) return (await onDisk(place, boxId)).map((process) => ({ ...process, sessionId }))
  return (await client.processes(sessionId).catch(() => NONE)).processes // a runner that is away has its own messages
}

/** Of all sessions. */
export async function namesOfProcesses(client: DaemonClient | undefined, place: Place): Promise<readonly string[]> {
  const found = client === undefined ? await onDisk(place) : (await client.processes().catch(() => NONE)).processes
  return found.map(({ name }) => name)
}

// ---- details ----

const NONE = { processes: [] }

async function onDisk({ runner, stateDir }: Place, boxId?: string) {
  if (runner.kind !== 'local') return []
  const { backgroundOnDisk } = await import('@breakfall/runner/internal')
  return backgroundOnDisk(join(stateDir, 'runner'), boxId)
}
