/** What a run needs before there is a process: the caller's `launch` hook, its environment, and a command that can work at all. */
import { unlessAborted } from './clock.ts'
import { hookFailure, preflight, type StartFailure } from './preflight.ts'
import { type Alive, checkedLaunch, type Launch, type Ready, type ResolvedSpec } from './spec.ts'

export type Prepared = {
  readonly args: readonly string[]
  readonly ready: Ready
  readonly alive: Alive | undefined
  /** Variables that the spec and the hook name. */
  readonly given: Readonly<Record<string, string>>
  /** Variables that come with our own environment. */
  readonly inherited: Readonly<Record<string, string | undefined>>
}

export type Unprepared = { readonly failure: StartFailure; readonly cause: unknown }

/** The signal leaves a hook that hangs; who gave it asks afterwards what is still wanted. */
export async function prepareRun(
  spec: ResolvedSpec,
  run: { readonly runId: string; readonly attempt: number },
  signal: AbortSignal,
): Promise<Prepared | Unprepared> {
  let launch: Launch
  try {
    launch = checkedLaunch(await unlessAborted(spec.launch?.(run), signal))
  } catch (error) {
    return { failure: hookFailure(error), cause: error }
  }
  const prepared: Prepared = {
    args: launch.args ?? spec.args,
    ready: launch.ready ?? spec.ready,
    alive: launch.alive ?? spec.alive,
    given: { ...spec.env, ...launch.env },
    inherited: spec.inheritEnv ? { ...process.env } : {},
  }
  const failure = await preflight({ command: spec.command, cwd: spec.cwd, env: environmentOf(prepared) })
  return failure === undefined ? prepared : { failure, cause: undefined }
}

export function environmentOf({ given, inherited }: Prepared): Readonly<Record<string, string | undefined>> {
  return { ...inherited, ...given }
}
