/**
 * Which session a run works in: a new one with its own box, this folder's last one, or the named one.
 *
 * A user who runs `breakfall run` in a folder allows that folder, and those of `--mount`, for the box of that session alone: the
 * session is created with a signature over them, and nothing is written down that another session could use.
 */
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import type { SessionViewer } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import type { BoxCreate, Session, SessionCreate } from '@breakfall/wire'
import { FOLDER_KEY, signFolders } from '@breakfall/wire/node'
import { type BoxMountSetting, mountOf, networkOf, variableOf } from '../../config/box.ts'
import type { BroughtModel } from '../../model/brought-model.ts'
import { cmd } from '../../process/command-name.ts'
import { prepareStateDir, stateFileFault } from '../../process/state-folder.ts'
import { fullId } from '../../sessions/lookup.ts'
import { isContinuing, type RunContext, type RunOptions } from './options.ts'

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

/** Its folder, and what flags and configuration add to it. */
export function boxToCreate(context: RunContext, folder: string): BoxCreate {
  const { options, config } = context
  const level = options.isolation ?? config.runner.isolation
  const network = options.network === undefined ? config.box.network : networkOf(options.network)
  const home = options.home ?? config.box.home
  const env = { ...config.box.env, ...Object.fromEntries((options.env ?? []).map(variableOf)) }
  const mounts = runMounts(context)
  return {
    workspace: folder,
    ...(config.box.checkpoints === 'off' || options.rehearsal === true ? {} : { checkpoints: config.box.checkpoints }),
    ...(network === undefined ? {} : { network }),
    ...(config.limits === undefined ? {} : { limits: config.limits }),
    ...(level === undefined ? {} : { isolation: { level } }),
    ...(home === undefined ? {} : { home }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(mounts.length === 0 ? {} : { mounts: [...mounts] }),
  }
}

/** Folders of the configuration, then those of flags, which win. */
export function runMounts({ options, config }: RunContext): readonly BoxMountSetting[] {
  const all = [...config.box.mounts, ...(options.mount ?? []).map((text) => mountOf(text, config.childEnv))]
  return [...new Map(all.map((mount) => [mount.path, mount])).values()]
}

// ---- details, in the order they are used above ----

/** The same box, which the runner of this state folder accepts wherever its folders are. */
function signedBox(box: BoxCreate, stateDir: string): BoxCreate {
  const { workspace, mounts = [] } = box
  try {
    const folders = {
      workspace: workspace === undefined ? undefined : realpathSync(workspace),
      mounts: mounts.map(({ path, mode = 'ro' }) => ({ path: realpathSync(path), mode })),
    }
    return { ...box, grant: signFolders(join(prepareStateDir(stateDir), 'runner', FOLDER_KEY), folders) }
  } catch (error) {
    throw stateFileFault(error)
  }
}

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
