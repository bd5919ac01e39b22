/**
 * A keeper: a small shell beside the commands of a box that outlives the runner. It holds a command's pipes open, so that
 * output waits for a reader instead of being lost, and notes the facts in a status file. It is in its control groups from
 * its beginning, and what it starts is born in them: moving a process there costs more than all the rest of a short exec.
 * So it stays for the next exec of its box once nothing else is left in its groups.
 *
 *     runner: job ──▶ keeper: claim, run, note the exit ──▶ runner: reads all, writes the end, done ──▶ next job
 *
 * I1  The claim is made by exclusive creation before anything is run. Who makes it first decides: a keeper that comes
 *     second runs nothing, and a restarted runner that comes first knows that nothing was run.
 * I2  Facts are lines in one file that was filled before (a full disk cannot lose them), in the order in which they happened.
 * I3  It stays after the end of a command, holding the pipes, until the runner has read everything and says so or ends it.
 *     Without a runner an idle one ends at once, the others when their exec's words are gone.
 * I4  Nothing that a caller sent is in its environment, its arguments or its text: the command and its settings are
 *     words in a file of the exec, and are read by the process that becomes the command.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { Socket } from 'node:net'
import type { ExecGroup } from '../isolation/cgroup.ts'
import { spawnCovered } from '../state/inherited.ts'
import { KEEPER_MARK, sendSignal, settingsOf } from './process-table.ts'

/** What the descriptors of a command's sandbox are. One digit each: the plain shell knows no others. */
export const KEEPER_FDS = { args: 9, sandboxStatus: 4 } as const

/**
 * $1 the folder of all execs, $2 its name, $3 the path of sleep, then the files of the control groups to join.
 * A job is a line: the exec's id, `sandbox`, `checked` or `plain`, the pipes of its input (or `-`) and its stderr, and
 * when it was given, all without blanks.
 * The shell's own words, such as "Killed" for a child that a signal ended, go to the status file: they are the proof.
 */
export const KEEPER_SCRIPT = `breakfall_execs=$1
breakfall_name=$2
breakfall_sleep=$3
shift 3
for breakfall_group in "$@"; do echo 0 >"$breakfall_group" || exit 126; done
set --
while read -r breakfall_id breakfall_mode breakfall_in breakfall_err breakfall_at; do
  breakfall_exec=$breakfall_execs/$breakfall_id
  set -C
  [ -e "$breakfall_exec/launch" ] && : >"$breakfall_exec/started" || exit 1
  set +C
  exec 1<>"$breakfall_exec/out.fifo" 2<>"$breakfall_exec/status" 3<>"$breakfall_exec/$breakfall_err"
  echo "keeper $$ $breakfall_name $breakfall_at" >&2
  if [ "$breakfall_in" = - ]; then
    breakfall_in=/dev/null
  else
    breakfall_in=$breakfall_exec/$breakfall_in
    exec 4<>"$breakfall_in" 5>"$breakfall_in" 4>&-
    "$breakfall_sleep" 604800 </dev/null >&5 2>&5 3>&- 5>&- &
    echo "holder $!" >&2
    exec 5>&-
  fi
  (
    . "$breakfall_exec/launch"
    exec 0<"$breakfall_in" || exit 126
    read -r breakfall_pid breakfall_rest </proc/self/stat
    echo "pid $breakfall_pid" >&2
    case $breakfall_mode in
      sandbox) exec "$@" 9<"$breakfall_exec/sandbox" 4>&2 2>&3 3>&- ;;
      checked) exec "$@" 9<"$breakfall_exec/sandbox" 4>&2 8>&2 2>&3 3>&- ;;
      *) exec "$@" 2>&3 3>&- ;;
    esac
  )
  echo "exit $?" >&2
  if read -r breakfall_done; then
    exec 1>/dev/null 2>/dev/null 3>&-
  else
    while [ -e "$breakfall_exec/launch" ] && "$breakfall_sleep" 10; do :; done
    kill -9 0 # itself and the holder: what it ran has groups of its own
  fi
done
`

/** The words of the file `launch`: where the command begins, and what it is. */
export function launchText(cwd: string | undefined, command: readonly string[]): string {
  return `${cwd === undefined ? '' : `cd -- ${quoted(cwd)} || exit 126\n`}set -- ${command.map(quoted).join(' ')}\n`
}

/** To a shell nothing within single quotes means anything but the quote itself. */
const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`

export type KeeperPlan = {
  readonly execs: string
  readonly name: string
  /** Stands in its environment, and nobody else's. */
  readonly mark: string
  readonly sleep: string
  readonly group: ExecGroup | undefined
  /** Descriptors that it must not get. */
  readonly inherited: readonly number[]
}

export type Job = {
  readonly execId: string
  readonly mode: 'sandbox' | 'checked' | 'plain'
  readonly stdin: string | undefined
  readonly stderr: string
  readonly atMs: number
}

/** It ended before its job was done; `why` where it ended by itself, which it does only before it ran anything. */
export type OnGone = (why: string | undefined) => void

export class Keeper {
  readonly name: string
  readonly group: ExecGroup | undefined
  /** Resolves when its process is gone. */
  readonly gone: Promise<void>
  readonly #child: ChildProcess
  #onGone: OnGone | undefined
  readonly #settings: string
  #hasInput = false
  #isExposed = false
  #isGone = false

  /** Throws where no process can be made. */
  constructor(plan: KeeperPlan) {
    this.name = plan.name
    this.group = plan.group
    this.#child = spawnKeeper(plan)
    this.#settings = this.pid === undefined ? '' : settingsOf(this.pid)
    this.gone = new Promise((resolve) => {
      const end = (why: string | undefined): void => {
        if (this.#isGone) return
        this.#isGone = true
        this.#onGone?.(why)
        resolve()
      }
      this.#child.once('error', (error) => end(error.message)) // no process could be made
      this.#child.once('exit', (code) => end(code === null ? undefined : `the keeper ended with code ${code}`))
    })
    const { stdin } = this.#child // missing if no process could be made
    stdin?.on('error', () => {
      // It is gone, which its end says too.
    })
    if (stdin instanceof Socket) stdin.unref()
    this.#child.unref()
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** At level process a command may have changed its keeper, which the next one would be born with. */
  isChanged(): boolean {
    return this.#isExposed && this.pid !== undefined && settingsOf(this.pid) !== this.#settings
  }

  get isGone(): boolean {
    return this.#isGone
  }

  /** Itself, and the one that holds its command's input open. */
  get processes(): number {
    return this.#hasInput ? 2 : 1
  }

  run(job: Job, onGone: OnGone): void {
    this.#onGone = onGone
    this.#hasInput = job.stdin !== undefined
    this.#isExposed = job.mode === 'plain'
    this.#child.stdin?.write(`${job.execId} ${job.mode} ${job.stdin ?? '-'} ${job.stderr} ${job.atMs}\n`)
  }

  /** Somebody may have stopped it; it would not take its job, or not tell the end. */
  wake(): void {
    if (!this.#isGone && this.pid !== undefined) sendSignal(this.pid, 'SIGCONT')
  }

  /** All of the last job is read and kept: it waits for the next. */
  done(): void {
    this.#onGone = undefined
    this.#child.stdin?.write('done\n')
  }

  /** Leaves it, and what it runs, to itself: an idle one ends, another one waits for the next runner. */
  leave(): void {
    this.#onGone = undefined
    this.#child.stdin?.destroy()
  }

  /** Ends it and its holder at once. What it started has groups of its own. */
  kill(): void {
    this.#onGone = undefined
    if (!this.#isGone && this.pid !== undefined) sendSignal(-this.pid, 'SIGKILL')
    this.#child.stdin?.destroy()
  }
}

function spawnKeeper(plan: KeeperPlan): ChildProcess {
  const { execs, name, mark, sleep, group, inherited } = plan
  return spawnCovered(inherited, ['pipe', 'ignore', 'ignore'], (stdio) =>
    spawn('/bin/sh', ['-c', KEEPER_SCRIPT, 'keeper', execs, name, sleep, ...(group?.joins ?? [])], {
      cwd: '/',
      env: { PATH: '/usr/bin:/bin', [KEEPER_MARK]: mark }, // I4
      detached: true, // its own session: a signal to the runner's group does not reach it
      stdio,
    }),
  )
}
