/** The box that a run creates: its folder, and what flags and configuration add to it. */
import type { BoxCreate } from '@breakfall/wire'
import { type BoxMountSetting, mountOf, networkOf, variableOf } from '../config/box.ts'
import type { RunContext } from './options.ts'

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
