/** Everything a run needs before its process starts: the result of the `launch` hook, the environment, and a preflight check. */
import { unlessAborted } from './clock.ts'
import { hookFailure, preflight, type StartFailure } from './preflight.ts'
import { assertLaunch } from './resolve-spec.ts'
import type { Alive, Launch, Ready, ResolvedSpec } from './spec.ts'

export type Prepared = {
  readonly args: readonly string[]
  readonly ready: Ready
  readonly alive: Alive | undefined
  /** Variables from the spec and the hook. */
  readonly given: Readonly<Record<string, string>>
  /** Variables from our own environment. */
  readonly inherited: Readonly<Record<string, string | undefined>>
}

export type Unprepared = { readonly failure: StartFailure; readonly cause: unknown }

/** The signal abandons a hook that hangs. The caller then checks what it still wants. */
export async function prepareRun(
  spec: ResolvedSpec,
  run: { readonly runId: string; readonly attempt: number },
  signal: AbortSignal,
): Promise<Prepared | Unprepared> {
  let launch: Launch
  try {
    const launched: unknown = await unlessAborted(spec.launch?.(run), signal)
    assertLaunch(launched)
    launch = launched ?? {}
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
