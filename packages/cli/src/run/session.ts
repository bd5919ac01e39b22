/** Which session a run works in: a new one for the folder, this folder's last one, or the one that was named. */
import { Fault, type Policy } from '@breakfall/faults'
import type { Session, SessionCreate } from '@breakfall/wire'
import { wholeId } from '../sessions/ids.ts'
import type { Viewer } from '../sessions/offline.ts'
import type { RunContext } from './options.ts'

export function createFor({ run, loaded }: RunContext, folder: string, prompt: string | undefined): SessionCreate {
  const { limits, policy, model, runner } = loaded.config
  const level = run.isolation ?? runner?.isolation
  return {
    title: prompt === undefined ? null : (prompt.split('\n')[0]?.slice(0, 80) ?? null),
    box: {
      workspace: folder,
      ...(run.network === undefined ? {} : { network: run.network }),
      ...(limits === undefined ? {} : { limits }),
      ...(level === undefined ? {} : { isolation: { min: level } }),
    },
    ...(model?.name === undefined ? {} : { model: model.name }),
    ...(policy === undefined ? {} : { policy: policy as Partial<Policy> }),
  }
}

/** The session named, or this folder's last one. Undefined where a new one is asked for. */
export async function sessionFor(
  client: Viewer,
  { run, options }: RunContext,
  folder: string,
): Promise<Session | undefined> {
  const session = run.session === undefined ? undefined : await client.session(await wholeId(client, run.session))
  const found = session ?? (run.continue === true ? await lastOf(client, folder) : undefined)
  const model = options['model'] as string | undefined
  if (found !== undefined && model !== undefined && found.model !== model)
    throw new Fault('invalid_request', {
      error: `session ${found.id} has the model ${found.model}, which --model cannot change; leave it out, or start a new session`,
    })
  return found
}

async function lastOf(client: Viewer, folder: string): Promise<Session> {
  const here = (await client.sessions()).filter((session) => session['workspace'] === folder)
  const last = here.sort((a, b) => b.createdAt.localeCompare(a.createdAt))[0]
  if (last === undefined)
    throw new Fault('not_found', {
      error: `there is no session of the folder ${folder} to go on with; start one: breakfall run "PROMPT"`,
    })
  return last
}
