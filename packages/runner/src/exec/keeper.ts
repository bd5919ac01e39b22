/**
 * A keeper: a small shell beside the commands of a box that outlives the runner. It holds a command's pipes open, so output
 * waits for a reader instead of being lost, and it writes facts to a status file. It joins its control groups when it starts,
 * and its children inherit them: moving a process there costs more than the rest of a short exec. So once nothing else is
 * left in its groups, it stays for the next exec of its box.
 *
 *     runner: job ──▶ keeper: claim, run, note the exit ──▶ runner: reads everything, writes the end, done ──▶ next job
 *
 * I1  The claim is an exclusively created file, made before anything runs. The first to create it decides: a keeper that
 *     comes second runs nothing, and a restarted runner that comes first knows that nothing ran.
 * I2  Facts are lines in a file whose space was allocated before (a full disk cannot lose them), in the order of events.
 * I3  After the command ends, the keeper holds the pipes until the runner has read everything and says so, or ends it.
 *     Without a runner an idle keeper exits at once, a busy one when the `launch` file of its exec is gone.
 * I4  Nothing that a caller sent is in the keeper's environment, arguments or script: the command and its settings are in
 *     a file of the exec, which is read by the process that becomes the command.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { Socket } from 'node:net'
import { sendSignal, settingsOf } from '@breakfall/supervisor/platform'
import { SECCOMP_FD, quoted } from '../isolation/bwrap-args.ts'
import type { ExecGroup } from '../isolation/cgroup.ts'
import { spawnCovered } from '../lib/spawn-covered.ts'
import { KEEPER_MARK } from './process-table.ts'

/** The descriptors of a command's sandbox. One digit each: a POSIX shell supports no others. */
export const KEEPER_FDS = { args: 9, sandboxStatus: 4 } as const

/**
 * The descriptors while an exec runs:
 *
 *     fd  in the keeper          in the command's process
 *     0   the jobs               its input, or /dev/null
 *     1   out.fifo               its stdout
 *     2   the status file        its stderr
 *     3   the pipe of stderr     closed
 *     4   while input opens      the status file, for bubblewrap
 *     5   while input opens      the seccomp program, for bubblewrap
 *     8                          the status file, for the check before the command
 *     9                          the arguments of bubblewrap
 *
 * $1 the folder of all execs, $2 the keeper's name, $3 the path of sleep, then the files of the control groups to join.
 * A job is one line: the exec's id, `sandbox`, `checked` or `plain`, the pipes of its input (or `-`) and its stderr, and
 * the time it was sent, all without blanks. The shell's own messages, such as "Killed" for a child that a signal ended, go to the
 * status file: they prove the signal.
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
    kill -9 0 # itself and the holder: what it ran has its own process groups
  fi
done
`

/** The file `launch`: where the command starts, what it is, and the file with its seccomp program. */
export function launchText(cwd: string | undefined, command: readonly string[], seccomp: string | null = null): string {
  const start = cwd === undefined ? '' : `cd -- ${quoted(cwd)} || exit 126\n`
  const filter = seccomp === null ? '' : `exec ${SECCOMP_FD}<${quoted(seccomp)} || exit 126\n`
  return `${start}${filter}set -- ${command.map(quoted).join(' ')}\n`
}

export type KeeperPlan = {
  readonly execs: string
  readonly name: string
  /** In its environment, and in no other process's. */
  readonly mark: string
  readonly sleep: string
  readonly group: ExecGroup | undefined
  /** The words that start it with an empty session keyring. */
  readonly keyring: readonly string[]
  /** Descriptors that it must not inherit. */
  readonly inherited: readonly number[]
}

export type Job = {
  readonly execId: string
  readonly mode: 'sandbox' | 'checked' | 'plain'
  readonly stdin: string | undefined
  readonly stderr: string
  readonly atMs: number
}

/** The keeper ended before its job was done. With `why` it exited on its own, which it does only before it runs anything. */
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
  #sandboxProcesses = 0
  #isExposed = false
  #isGone = false

  /** Throws if no process can be made. */
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
      // The process is gone; its 'exit' event reports that.
    })
    if (stdin instanceof Socket) stdin.unref()
    this.#child.unref()
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** At level process a command may have changed its keeper's settings, which the next command would inherit. */
  isChanged(): boolean {
    return this.#isExposed && this.pid !== undefined && settingsOf(this.pid) !== this.#settings
  }

  get isGone(): boolean {
    return this.#isGone
  }

  /** Itself, the holder of its command's input, and of a sandbox bubblewrap and its init. */
  get processes(): number {
    return 1 + (this.#hasInput ? 1 : 0) + this.#sandboxProcesses
  }

  /** Counts the processes that this job will need. */
  expect({ mode, stdin }: Job): void {
    this.#sandboxProcesses = mode === 'plain' ? 0 : 2
    this.#hasInput = stdin !== undefined
  }

  run(job: Job, onGone: OnGone): void {
    this.#onGone = onGone
    this.expect(job)
    this.#isExposed = job.mode === 'plain'
    this.#child.stdin?.write(`${job.execId} ${job.mode} ${job.stdin ?? '-'} ${job.stderr} ${job.atMs}\n`)
  }

  /** Continues it: a stopped keeper would not take its job, or not report the end. */
  wake(): void {
    if (!this.#isGone && this.pid !== undefined) sendSignal(this.pid, 'SIGCONT')
  }

  /** The last job is read and stored completely: it waits for the next. */
  done(): void {
    this.#onGone = undefined
    this.#sandboxProcesses = 0
    this.#child.stdin?.write('done\n')
  }

  /** Lets it run on without this process: an idle keeper exits, a busy one waits for the next runner. */
  leave(): void {
    this.#onGone = undefined
    this.#child.stdin?.destroy()
  }

  /** Ends it and its holder at once. What it started has its own process groups. */
  kill(): void {
    this.#onGone = undefined
    if (!this.#isGone && this.pid !== undefined) sendSignal(-this.pid, 'SIGKILL')
    this.#child.stdin?.destroy()
  }
}

function spawnKeeper(plan: KeeperPlan): ChildProcess {
  const { execs, name, mark, sleep, group, keyring, inherited } = plan
  const shell = ['/bin/sh', '-c', KEEPER_SCRIPT, 'keeper', execs, name, sleep, ...(group?.joins ?? [])]
  const [program = '', ...args] = [...keyring, ...shell]
  return spawnCovered(inherited, ['pipe', 'ignore', 'ignore'], (stdio) =>
    spawn(program, args, {
      cwd: '/',
      env: { PATH: '/usr/bin:/bin', [KEEPER_MARK]: mark }, // I4: nothing of the caller's is in it
      detached: true, // its own session: a signal to the runner's group does not reach it
      stdio,
    }),
  )
}
