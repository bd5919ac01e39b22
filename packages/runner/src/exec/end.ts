/** The end of an exec: made from what is known about it, then written to disk. */
import type { Diagnostic } from '@breakfall/faults'
import { RUNNER_DEFAULTS } from '../defaults.ts'
import { pollUntil } from '../waiting.ts'
import { exitRecord } from './exit-record.ts'
import { backgroundEnded, leavesBehind } from './left-behind.ts'
import { type ExecEnd, removeWorkingFiles, writeEnd } from './folder.ts'
import type { ExecOutput } from './output.ts'
import type { Run } from './run.ts'
import type { ExecSetup } from './setup.ts'
import { type Ending, startedAtMsOf } from './state.ts'
import type { KeeperStatus } from './status.ts'

export type EndFacts = {
  readonly setup: ExecSetup
  readonly output: ExecOutput
  readonly status: KeeperStatus
  readonly diagnostics: readonly Diagnostic[]
  readonly survivors: readonly number[]
}

/** `isClean`: the keeper ran the command to its end and holds nothing for it, so it may run the next one. */
export function endOf(
  ending: Ending<Run>,
  { setup, output, status, diagnostics, survivors }: EndFacts,
): { readonly end: ExecEnd; readonly isClean: boolean } {
  const { claimed, run, stop } = ending
  const refusal = claimed ? null : ending.refusal
  const { losses } = output
  const isLeft =
    claimed &&
    stop === null &&
    setup.reservation.request.background === undefined &&
    leavesBehind(setup.reservation.command)
  const oomKills = run?.keeper.group?.oomKills() ?? 0
  const exit = exitRecord(
    {
      level: setup.level,
      status,
      claimed,
      stop,
      refusal: refusal?.reason,
      oomKills,
      durationMs: run?.elapsedMs() ?? 0,
      survivors: run?.tree.survivors(survivors) ?? [],
      stdoutBytes: output.bytes('stdout'),
      stderrBytes: output.bytes('stderr'),
      truncated: output.truncated || losses.length > 0,
      diagnostics: [
        ...diagnostics,
        ...(isLeft ? [backgroundEnded] : []),
        ...setup.denied(),
        ...(refusal === null ? [] : [refusal.diagnostic]),
        ...losses,
      ],
    },
    setup.whyNotRunnable,
  )
  return {
    end: { exit, startedAtMs: startedAtMsOf(ending), endedAtMs: setup.clock.now(), lastSeq: output.count + 1 },
    isClean: oomKills === 0 && survivors.length === 0 && status.exit !== undefined && status.holder === undefined,
  }
}

/**
 * Writes the end. Its room on disk was reserved at the start, so only a broken disk or a lack of descriptors fails here:
 * then it keeps trying and calls `onKept`; until then waiters get the end from memory, and a restart from the status file.
 */
export function keepEnd(folder: string, end: ExecEnd, onKept: () => void): boolean {
  if (isWritten(folder, end)) return true
  const kept = pollUntil(() => (isWritten(folder, end) ? true : undefined), {
    everyMs: RUNNER_DEFAULTS.pollMs,
    forMs: Number.POSITIVE_INFINITY,
    ref: false,
  })
  void kept.then(onKept)
  return false
}

function isWritten(folder: string, end: ExecEnd): boolean {
  try {
    writeEnd(folder, end)
    return true
  } catch {
    return false // the caller tries again
  }
}

export function removeFilesSoon(folder: string): void {
  setImmediate(() => {
    try {
      removeWorkingFiles(folder)
    } catch {
      // The next start removes them; nothing reads them before.
    }
  })
}
