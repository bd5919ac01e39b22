/** Which session a run works in: a new one, this folder's last one, or the named one. */
import type { SessionViewer } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import type { Session, SessionCreate } from '@breakfall/wire'
import { fullId } from '../sessions/ids.ts'
import { boxToCreate } from './box.ts'
import type { BroughtModel } from './brought-model.ts'
import type { RunContext } from './options.ts'

export function sessionToCreate(
  context: RunContext,
  folder: string,
  prompt: string | undefined,
  brought: BroughtModel,
): SessionCreate {
  const { policy, agent, runTools } = context.config
  return {
    title: prompt === undefined ? null : (prompt.split('\n')[0]?.slice(0, 80) ?? null),
    box: boxToCreate(context, folder),
    ...brought,
    ...(policy === undefined ? {} : { policy }),
    ...(agent === undefined ? {} : { agent }),
    ...(runTools === undefined ? {} : { tools: [...runTools] }),
  }
}

/** The session to continue. Undefined if a new one is wanted. */
export async function sessionToContinue(
  viewer: SessionViewer,
  { options }: RunContext,
  folder: string,
): Promise<Session | undefined> {
  const named = options.session === undefined ? undefined : await viewer.session(await fullId(viewer, options.session))
  return named ?? (options.continue === true ? await lastSessionOf(viewer, folder) : undefined)
}

async function lastSessionOf(viewer: SessionViewer, folder: string): Promise<Session> {
  const [last] = (await viewer.sessionPage({ workspace: folder, limit: 1 })).sessions
  if (last === undefined)
    throw new Fault('not_found', {
      error: `The folder ${folder} has no session to continue; start one: breakfall run "PROMPT"`,
    })
  return last
}
