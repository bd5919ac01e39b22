/**
 * The door of a warm sandbox: a shell of ours inside a sandbox that was built ahead. It waits for one line, then reads from a
 * file what to run. Used once, so no command ever meets anything of another.
 *
 * I1  A sandbox is offered only after its door has written `ready`: the keeper is in its folder by then, and the folder may be
 *     renamed.
 * I2  `begun` is the proof that the command may have run. Without it, it certainly did not.
 * I3  The runner holds the other end of the job pipe. If the runner dies before it sends the line, the door ends by itself.
 */
import type { Entry } from '../isolation/bwrap-args.ts'
import { quoted } from './shell-words.ts'

/** The descriptors of a door, besides a keeper's. */
export const DOOR_FDS = { launch: 6, job: 7, status: 8 } as const

/** The words that bubblewrap starts. */
export function doorCommand(entry: Entry | undefined): readonly string[] {
  const { workspace = '/', numbers = [] } = entry ?? {}
  return [
    '/bin/sh',
    '-c',
    DOOR_SCRIPT,
    'sh',
    workspace,
    numbers.map(({ name }) => name).join(' '), // fixed names without blanks
    numbers.map((each) => each.numbers).join('\n'),
  ]
}

export type DoorJob = {
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
  readonly command: readonly string[]
  /** Paths that must be read-only. */
  readonly guarded: readonly string[]
  readonly merge: boolean
  readonly atMs: number
  /** The machine's shell adds no variables to what it starts. */
  readonly isPlainShell: boolean
}

/** The file `launch` of a warm exec: what the door runs. */
export function goText(job: DoorJob): string {
  const { cwd, guarded, merge, atMs } = job
  const writable = guarded.map((path) => `[ -w ${quoted(path)} ]`).join(' || ')
  return [
    `cd -- ${quoted(cwd)} || { echo refused >&8; exit 126; }`,
    ...(writable === '' ? [] : [`if ${writable}; then echo refused >&8; exit 126; fi`]),
    `echo "begun ${atMs}" >&8`, // I2
    `exec 6<&- 7<&- 8>&-${merge ? ' 2>&1' : ''}`,
    ...commandLines(job),
    '',
  ].join('\n')
}

// ---- details ----

const DOOR_SCRIPT = `[ -z "$2" ] || { cd -- "$1" && [ "$(stat -c %d:%i -- $2)" = "$3" ]; } || { echo refused >&8; exit 126; }
echo ready >&8
read -r breakfall_go <&7 || exit 125
unset breakfall_go
. /proc/self/fd/6`

/** With `export` the shell becomes the command; `env` is one program more, for what a shell cannot say. */
function commandLines({ environment, command, isPlainShell }: DoorJob): readonly string[] {
  const names = Object.keys(environment)
  const isPlain = isPlainShell && names.every((name) => isOrdinary(name)) && command[0]?.startsWith('-') !== true
  const assignments = Object.entries(environment).map(([name, value]) => [name, quoted(value)] as const)
  if (isPlain)
    return [
      'unset OLDPWD',
      `export ${assignments.map(([name, value]) => `${name}=${value}`).join(' ')}`,
      `exec ${command.map(quoted).join(' ')}`,
    ]
  const isAssignment = command[0]?.includes('=') === true // `env` would treat it as one
  return [
    `exec /usr/bin/env -i ${assignments.map(([name, value]) => `${quoted(name)}=${value}`).join(' ')}${isAssignment ? ` /bin/sh -c 'exec "$@"' sh` : ''} ${command.map(quoted).join(' ')}`,
  ]
}

/** Not an identifier, or a variable that means something to a shell. */
const isOrdinary = (name: string): boolean => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !SHELL_VARIABLES.test(name)

const SHELL_VARIABLES =
  /^(_|ATTY|BASH.*|CDPATH|ENV|EUID|FUNCNAME|GROUPS|HIST.*|IFS|LINENO|MAIL|MAILPATH|OLDPWD|OPT.*|POSIXLY_CORRECT|PPID|PS[0-9]|RANDOM|SECONDS|SHELLOPTS|SHLVL|UID)$/
