/** Refuses mounts that cannot work before anything starts. The message names the flag or the setting. */
import { Fault, isFault } from '@breakfall/faults'
import { isMissing } from '../../config/allowed-folders.ts'
import type { BoxMountSetting } from '../../config/box.ts'
import { isContinuing, type RunContext } from './options.ts'
import { runMounts } from './session.ts'

export function refuseMounts(context: RunContext): void {
  const { options, config } = context
  if (isContinuing(context)) return
  const problem = mountRefusal(runMounts(context), {
    settings: config.box.mounts.map(({ path }) => path),
    isHere: config.daemon.kind === 'local' && config.runner.kind === 'local',
    level: options.isolation ?? config.runner.isolation,
    isMissing,
  })
  if (problem !== undefined) throw problem
}

/** What the runner refuses is named by its flag, not by the field of the request. */
export function asMountRefusal(thrown: unknown): unknown {
  if (!isFault(thrown) || thrown.category !== 'invalid_request') return thrown
  const field = thrown.report.errors?.find(({ field }) => /^box\.mounts\.\d+\.path$/.test(field))
  if (field === undefined) return thrown
  const why = field.got === '/' ? 'it would show the box your whole system' : `it must be ${field.expected}`
  return refusal(
    `--mount ${field.got} is refused: ${why}.`,
    'Mount one folder, with --mount or in [box] mounts of your config.toml.',
  )
}

type MountFacts = {
  /** What the configuration names. Anything else is from a flag. */
  readonly settings: readonly string[]
  /** The boxes are on this machine. Elsewhere, only that machine knows its folders. */
  readonly isHere: boolean
  readonly level: string | undefined
  readonly isMissing: (mount: BoxMountSetting) => boolean
}

/** Pure. */
export function mountRefusal(mounts: readonly BoxMountSetting[], facts: MountFacts): Fault | undefined {
  const namedIn = (path: string): string =>
    facts.settings.includes(path) ? '[box] mounts in your config.toml' : '--mount'
  const missing = facts.isHere ? mounts.find(facts.isMissing) : undefined
  if (missing !== undefined)
    return refusal(
      `There is no folder ${missing.path}, which ${namedIn(missing.path)} names.`,
      'Create it, or remove it there.',
    )
  // Level "process" mounts nothing: a command could write where only reading was meant.
  const readOnly = facts.level === 'process' ? mounts.findLast(({ mode }) => mode === 'ro') : undefined
  if (readOnly === undefined) return undefined
  const { path } = readOnly
  return refusal(
    `Without a sandbox (level "process"), ${path} cannot be read-only: commands see your whole machine.`,
    `Remove it from ${namedIn(path)}: commands can read it anyway. Or write ${path}:rw to allow that they change it.`,
  )
}

// ---- details ----

const refusal = (happened: string, advice: string): Fault =>
  new Fault('invalid_request', { message: { happened, action: 'Nothing started.', advice } })
