/** Which session a run works in: a new one, this folder's last one, or the named one. */
import type { SessionViewer } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import type { Session, SessionCreate } from '@breakfall/wire'
import { fullId } from '../sessions/ids.ts'
import { boxToCreate } from './box.ts'
import type { BroughtModel } from './brought-model.ts'
import { isContinuing, type RunContext, type RunOptions } from './options.ts'
import { signedBox } from '../workspace/allowed.ts'
import { cmd } from '../process/command-name.ts'

export function sessionToCreate(
  context: RunContext,
  folder: string,
  prompt: string | undefined,
  brought: BroughtModel,
): SessionCreate {
  const { config } = context
  const { policy, agent, runTools } = config
  const box = boxToCreate(context, folder)
  const isHere = config.daemon.kind === 'local' && config.runner.kind === 'local' && !isContinuing(context)
  return {
    title: prompt === undefined ? null : (prompt.split('\n')[0]?.slice(0, 80) ?? null),
    box: isHere ? signedBox(box, config.stateDir) : box,
    ...brought,
    ...(policy === undefined ? {} : { policy }),
    ...(agent === undefined ? {} : { agent }),
    ...(runTools === undefined ? {} : { tools: [...runTools] }),
  }
}

/** The session to continue. Undefined if a new one is wanted. */
export async function sessionToContinue(
  viewer: SessionViewer,
  { options }: { readonly options: Pick<RunOptions, 'session' | 'continue'> },
  { folder, prompt }: { readonly folder: string; readonly prompt: string | undefined },
): Promise<Session | undefined> {
  if (options.session !== undefined) return viewer.session(await fullId(viewer, options.session))
  if (options.continue !== true) return undefined
  return (
    (prompt === undefined ? await unfinishedIn(viewer, folder) : undefined) ?? (await lastSessionOf(viewer, folder))
  )
}

// ---- details, in the order they are used above ----

const UNFINISHED = 'needs,parked,retrying,running,queued'

/** Without a prompt, only an unfinished turn can continue: finished sessions of this folder, however new, are passed over. */
async function unfinishedIn(viewer: SessionViewer, workspace: string): Promise<Session | undefined> {
  const { sessions } = await viewer.sessionPage({ workspace, state: UNFINISHED })
  return sessions.find(({ turnId }) => turnId !== null)
}

async function lastSessionOf(viewer: SessionViewer, folder: string): Promise<Session> {
  const [last] = (await viewer.sessionPage({ workspace: folder, limit: 1 })).sessions
  if (last === undefined)
    throw new Fault('not_found', {
      error: `The folder ${folder} has no session to continue; start one: ${cmd('run')} "PROMPT"`,
    })
  return last
}
