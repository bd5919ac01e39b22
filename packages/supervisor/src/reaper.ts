/**
 * Ends our children when we are killed. A small `sh` holds the read end of a pipe whose write end only this process has. When
 * this process ends, for any reason, the pipe ends, and the reaper ends everything we started.
 *
 * I1  It looks for the marker in the environment of our children. That also finds a child that started in our last
 *     millisecond or left its group and session, and never a process with a reused pid.
 * I2  The group of a child that hides its environment is signalled only while its leader has the start time we recorded.
 * I3  The reaper carries no marker and has its own session: neither an outer reaper nor Ctrl-C ends it.
 * I4  It never keeps this process from ending.
 *
 * Without /proc (macOS) it knows the groups only: a grandchild that leaves its group survives.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { Socket } from 'node:net'
import { systemClock } from './clock.ts'
import type { Leader } from './process-table.ts'

/** The value of `SUPERVISOR_MARK` in every child of this process. */
export const SUPERVISOR_ID: string = randomUUID()

const RESPAWN_MS = 1_000 // if it is lost twice within a second, the machine is full or someone kills it on purpose: wait

export class Reaper {
  readonly #leaders = new Map<number, Leader>()
  #process: ChildProcess | undefined
  #lostMs = -Infinity

  /** Call this before the first child starts, so no child ever runs without a reaper. */
  ensure(): void {
    if (this.#process !== undefined) return
    const child = spawn('/bin/sh', ['-c', SCRIPT, 'breakfall-reaper', SUPERVISOR_ID], {
      detached: true, // I3
      cwd: '/',
      env: { PATH: '/usr/local/bin:/usr/bin:/bin' }, // I3
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    this.#process = child
    child.on('error', () => this.#lost(child)) // no memory, no descriptor or no /bin/sh: children still notice that their pipes close
    child.on('exit', () => this.#lost(child))
    child.stdin?.on('error', () => this.#lost(child))
    child.unref() // I4
    if (child.stdin instanceof Socket) child.stdin.unref() // I4
    for (const leader of this.#leaders.values()) this.#send('add', leader)
  }

  add(leader: Leader): void {
    this.#leaders.set(leader.pid, leader)
    this.ensure()
    this.#send('add', leader)
  }

  remove(leader: Leader): void {
    if (this.#leaders.delete(leader.pid)) this.#send('del', leader)
  }

  get pid(): number | undefined {
    return this.#process?.pid
  }

  #send(verb: 'add' | 'del', leader: Leader): void {
    const stdin = this.#process?.stdin
    if (stdin?.writable === true) stdin.write(`${verb} ${leader.pid} ${leader.startTime ?? '-'}\n`)
  }

  #lost(child: ChildProcess): void {
    if (this.#process !== child) return
    this.#process = undefined
    const again = (): void => {
      if (this.#leaders.size > 0) this.ensure()
    }
    const isFirst = systemClock.now() - this.#lostMs >= RESPAWN_MS
    this.#lostMs = systemClock.now()
    if (isFirst) again()
    else setTimeout(again, RESPAWN_MS).unref() // I4
  }
}

/** One for the whole process: one shell, not one per child. */
export const reaper = new Reaper()

// ---- details ----

/**
 * POSIX sh plus `grep` and `sleep`. The list of groups is a string of `pid:start`. When the pipe ends: SIGTERM, 1.5 s of
 * grace, then SIGKILL until two sweeps in a row find nothing; about four seconds at most.
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
