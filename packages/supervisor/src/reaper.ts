/**
 * Sees to it that nothing outlives us. A small `sh` holds the read end of a pipe whose write end only this process has; when
 * this process ends, however it ends, the pipe ends, and the reaper ends whatever we had started.
 *
 * I1  It goes by the marker that our children carry in their environment, so a child that was started in our last
 *     millisecond, or that left its group and session, is found too, and a reused pid never is.
 * I2  Groups of children that hide their environment are signalled only while the leader has the start time that we noted.
 * I3  The reaper itself carries no marker and sits in its own session: neither an outer reaper nor Ctrl-C ends it.
 * I4  It never keeps this process from ending.
 *
 * Where there is no /proc (macOS) it knows the groups only: a grandchild that leaves its group survives us there.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import { systemClock } from './clock.ts'
import type { Leader } from './process-table.ts'

/** What all children of this process carry under `SUPERVISOR_MARK`. */
export const SUPERVISOR_ID: string = randomUUID()

const RESPAWN_MS = 1_000 // a second loss sooner than that is a full machine, or somebody who wants it dead: no hurry then

export class Reaper {
  readonly #watched = new Map<number, Leader>()
  #process: ChildProcess | undefined
  #lostMs = -Infinity

  /** Call before the first child starts: there must be no moment without a reaper. */
  ensure(): void {
    if (this.#process !== undefined) return
    const child = spawn('/bin/sh', ['-c', SCRIPT, 'breakfall-reaper', SUPERVISOR_ID], {
      detached: true, // I3
      cwd: '/',
      env: { PATH: '/usr/local/bin:/usr/bin:/bin' }, // I3
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    this.#process = child
    child.on('error', () => this.#lost(child)) // no room, or no /bin/sh: until there is, the pipes are all there is
    child.on('exit', () => this.#lost(child))
    child.stdin?.on('error', () => this.#lost(child))
    child.unref() // I4
    ;(child.stdin as Partial<Socket> | null | undefined)?.unref?.() // I4; a spawn that found no descriptor has no stdin
    for (const leader of this.#watched.values()) this.#tell('add', leader)
  }

  watch(leader: Leader): void {
    this.#watched.set(leader.pid, leader)
    this.ensure()
    this.#tell('add', leader)
  }

  forget(leader: Leader): void {
    if (this.#watched.delete(leader.pid)) this.#tell('del', leader)
  }

  get pid(): number | undefined {
    return this.#process?.pid
  }

  #tell(verb: 'add' | 'del', leader: Leader): void {
    const stdin = this.#process?.stdin
    if (stdin?.writable === true) stdin.write(`${verb} ${leader.pid} ${leader.startTime ?? '-'}\n`)
  }

  #lost(child: ChildProcess): void {
    if (this.#process !== child) return
    this.#process = undefined
    const again = (): void => {
      if (this.#watched.size > 0) this.ensure()
    }
    const isFirst = systemClock.now() - this.#lostMs >= RESPAWN_MS
    this.#lostMs = systemClock.now()
    if (isFirst) again()
    else setTimeout(again, RESPAWN_MS).unref() // I4
  }
}

/** One for the whole process: it costs a shell, not a shell per child. */
export const reaper = new Reaper()

// ---- details ----

/**
 * POSIX sh, with `grep` and `sleep` beside it. The list of groups is a string of `pid:start`. After the end of the pipe:
 * SIGTERM, 1.5 s of grace, then SIGKILL until two looks in a row find nobody, at most about four seconds in all.
 */
const SCRIPT = String.raw`
trap '' HUP INT TERM QUIT USR1 USR2
mark="BREAKFALL_SUPERVISOR=$1"
known=
start_of() {
  if [ -r "/proc/$1/stat" ]; then
    read -r line < "/proc/$1/stat" || return 1
    set -- \${line##*) }
    printf '%s' "\${20}"
  elif [ ! -d /proc/self ]; then
    ps -o lstart= -p "$1" 2>/dev/null | tr -s ' ' '_'
  fi
}
while read -r verb pid start; do
  case $verb in
    add)
      if [ "$start" = - ]; then start=$(start_of "$pid"); fi
      known="$known $pid:$start" ;;
    del)
      rest=
      for entry in $known; do
        case $entry in "$pid":*) ;; *) rest="$rest $entry" ;; esac
      done
      known=$rest ;;
  esac
done
sweep() {
  found=
  for file in $(grep -l -s -F -e "$mark" /proc/[0-9]*/environ 2>/dev/null); do
    pid=\${file#/proc/}
    pid=\${pid%/environ}
    kill -s "$1" "$pid" 2>/dev/null && found=1
  done
  for entry in $known; do
    pid=\${entry%%:*}
    start=\${entry#*:}
    if [ -n "$start" ] && [ "$(start_of "$pid")" = "$start" ]; then
      kill -s "$1" -- "-$pid" 2>/dev/null && found=1
    fi
  done
}
sweep TERM
round=0
while [ -n "$found" ] && [ $round -lt 8 ]; do
  sleep 0.2
  round=$((round + 1))
  sweep 0
done
quiet=0
round=0
while [ $quiet -lt 2 ] && [ $round -lt 15 ]; do
  sweep KILL
  if [ -n "$found" ]; then quiet=0; else quiet=$((quiet + 1)); fi
  round=$((round + 1))
  sleep 0.1
done
`.replaceAll('\\$', '$')
