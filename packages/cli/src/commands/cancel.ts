/** `breakfall cancel`: asks the daemon that runs, or, for a turn that an earlier one left, one for the moment. */
import { findViewer } from '../daemon/find.ts'
import type { Context } from '../program.ts'
import { cancel, turnOf } from './sessions.ts'

export async function cancelCommand(context: Context, id: string, reason: string | undefined): Promise<void> {
  const { out } = context
  const found = await findViewer(context.stateDir, context.env, '')
  if (!('isOffline' in found)) return cancel(found.viewer, id, reason, out)
  const turn = await turnOf(found.viewer, id) // what is not there needs no daemon to be told so
  const { forAMoment } = await import('../daemon/in-process.ts')
  await forAMoment(context, (client) => cancel(client, turn.id, reason, out))
}
