/**
 * The keeper: a small shell beside each command that outlives the runner. It holds the pipes open, so that output waits
 * for a reader instead of being lost, and notes the facts in a status file.
 *
 * I1  The claim is made by exclusive creation before anything is run. Who makes it first decides: a keeper that comes
 *     second runs nothing, and a restarted runner that comes first knows that nothing was run.
 * I2  Facts are lines in one file that was filled before (a full disk cannot lose them), in the order in which they happened.
 * I3  It stays after the end, holding the pipes, until the runner has read everything and ends its process group,
 *     or until its folder is gone.
 * I4  Nothing that a caller sent is in its environment or its text: the sandbox gets its settings through a file.
 */
import { type ChildProcess, spawn } from 'node:child_process'

/** What the keeper's descriptors are. One digit each: the plain shell knows no others. */
export const KEEPER_FDS = {
  stdout: 1,
  status: 2,
  stderr: 3,
  stdinHold: 4,
  args: 9,
  sandboxStatus: 4,
} as const

/** Names the keeper in its environment, where it stays visible, whatever becomes of its arguments. */
export const KEEPER_MARK = 'BREAKFALL_KEEPER'

/**
 * $1 claim file, $2 the file its input is read from, $3 `sandbox`, `checked` or `plain`, $4 the path of sleep
 * (the command's PATH need not have one), $5 how many control groups to join, their files, then the command.
 * The shell's own words, such as "Killed" for a child that a signal ended, go to the status file: they are the proof.
 */
export const KEEPER_SCRIPT = `set -C
: >"$1" || exit 1
set +C
breakfall_claim=$1
breakfall_in=$2
breakfall_mode=$3
breakfall_sleep=$4
breakfall_joins=$5
shift 5
echo "keeper $$" >&2
"$breakfall_sleep" 604800 </dev/null >&4 2>&4 3>&- 4>&- 9<&- &
echo "holder $!" >&2
exec 4>&-
(
  while [ "$breakfall_joins" -gt 0 ]; do
    echo 0 >"$1" || exit 126
    shift
    breakfall_joins=$((breakfall_joins - 1))
  done
  exec 0<"$breakfall_in" || exit 126
  read -r breakfall_pid breakfall_rest </proc/self/stat
  echo "pid $breakfall_pid" >&2
  case $breakfall_mode in
    sandbox) exec "$@" 4>&2 2>&3 3>&- ;;
    checked) exec "$@" 4>&2 8>&2 2>&3 3>&- ;;
    *) exec "$@" 2>&3 3>&- 9<&- ;;
  esac
)
echo "exit $?" >&2
while [ -e "$breakfall_claim" ] && "$breakfall_sleep" 10; do :; done
`

/** Without input there is nothing to hold open. */
export const KEEPER_SCRIPT_NO_INPUT = KEEPER_SCRIPT.replace(/^"\$breakfall_sleep" 604800.*\n.*holder.*\n/m, '')

export type KeeperPlan = {
  readonly claim: string
  readonly stdinPath: string
  readonly hasInput: boolean
  readonly mode: 'sandbox' | 'checked' | 'plain'
  /** Files of control groups; the command's first process writes itself into each. */
  readonly joins: readonly string[]
  readonly sleep: string
  readonly command: readonly string[]
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
  readonly mark: string
  readonly fds: {
    readonly stdout: number
    readonly stderr: number
    readonly status: number
    readonly stdinHold: number | 'ignore'
    readonly args: number | 'ignore'
    /** What children of this process would inherit, and what they get in its place. */
    readonly covered: readonly number[]
    readonly cover: number | 'ignore'
  }
}

export function spawnKeeper(plan: KeeperPlan): ChildProcess {
  const { fds } = plan
  const stdio: (number | 'ignore' | undefined)[] = ['ignore', fds.stdout, fds.status, fds.stderr, fds.stdinHold]
  stdio[KEEPER_FDS.args] = fds.args
  for (const fd of fds.covered) stdio[fd] ??= fds.cover
  return spawn(
    '/bin/sh',
    [
      '-c',
      plan.hasInput ? KEEPER_SCRIPT : KEEPER_SCRIPT_NO_INPUT,
      'keeper',
      plan.claim,
      plan.stdinPath,
      plan.mode,
      plan.sleep,
      String(plan.joins.length),
      ...plan.joins,
      ...plan.command,
    ],
    {
      cwd: plan.cwd,
      env: { ...plan.environment, [KEEPER_MARK]: plan.mark }, // I4: empty but for level process, where nothing is kept apart
      detached: true, // its own session: a signal to the runner's group does not reach it
      stdio: Array.from(stdio, (entry) => entry ?? 'ignore'),
    },
  )
}
