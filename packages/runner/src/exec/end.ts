/** The end of an exec: made from what is known about it, then written to disk. */
import type { Diagnostic } from '@breakfall/faults'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { pollUntil } from '../lib/poll-until.ts'
import { exitRecord } from './exit-record.ts'
import { type ExecEnd, removeWorkingFiles, writeEnd } from './exec-folder.ts'
import type { ExecOutput } from './output.ts'
import type { Run } from './run.ts'
import type { ExecSetup } from './exec-setup.ts'
import { type Ending, startedAtMsOf } from './state.ts'
import type { KeeperStatus } from './keeper-status.ts'

export type EndFacts = {
  readonly setup: ExecSetup
  readonly output: ExecOutput
  readonly status: KeeperStatus
  readonly diagnostics: readonly Diagnostic[]
  readonly survivors: readonly number[]
  /** What its box was refused while it ran. */
  readonly denied: readonly Diagnostic[]
}

/** `isClean`: the keeper ran the command to its end and holds nothing for it, so it may run the next one. */
export function endOf(
  ending: Ending<Run>,
  { setup, output, status, diagnostics, survivors, denied }: EndFacts,
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
        ...denied,
        ...(refusal === null ? [] : [refusal.diagnostic]),
        ...losses,
      ],
    },
    () => setup.launch?.whyNotRunnable(),
  )
  return {
    end: { exit, startedAtMs: startedAtMsOf(ending), endedAtMs: setup.clock.now(), lastSeq: output.count + 1 },
    isClean: oomKills === 0 && survivors.length === 0 && status.exit !== undefined && status.holder === undefined,
  }
}

/** Whether a command meant to leave something running. Pure: the words say it, because in a sandbox nothing is left to be seen. */
export function leavesBehind(command: readonly string[]): boolean {
  const text = command.length === 3 && command[1] === '-c' ? command[2] : undefined
  if (text === undefined) return ['nohup', 'setsid'].includes(command[0] ?? '')
  const words = text
    .replaceAll(/'[^']*'|"(?:[^"\\]|\\.)*"/g, 'x') // quoted words start nothing
    .replaceAll(/#.*$/gm, '')
  if (/(^|[\s;&|(])(nohup|setsid|disown)\b/.test(words)) return !/(^|[\s;&])wait\b/.test(words)
  return /[^&>|\s]\s*&\s*($|[\n;)}]|[^&>\s\d])/m.test(words) && !/(^|[\s;&])wait\b/.test(words)
}

const backgroundEnded: Diagnostic = {
  id: 'background_ended',
  rank: 'hint',
  message: 'what this command left running in the background was ended with it',
  advice: 'start it with background: true to keep it running',
  retry: 'never',
  evidence: [],
  count: 1,
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
