/**
 * Mounts paths onto themselves in a running sandbox: read-only, or writable so they cannot be renamed. All paths are looked
 * up in the sandbox, so whatever a command puts there meanwhile, nothing of the host can get in.
 */
import { execFile } from 'node:child_process'
import { type MountedAt, optionsAt } from './mount-info.ts'

export type RemountTools = {
  readonly nsenter: string | null
  readonly perl: string | null
}

export type Remount = { readonly path: string; readonly mode: 'ro' | 'rw' }

/** Undefined if it worked, else why not. */
export function remountIn(
  pid: number,
  mounts: MountedAt,
  wanted: readonly Remount[],
  tools: RemountTools,
): Promise<string | undefined> {
  const enter = entering(pid, tools)
  if (enter === undefined) return Promise.resolve('neither perl nor, for root, nsenter is installed')
  const words = wanted.flatMap(({ path, mode }) => [path, mode === 'rw' ? '' : readOnly(optionsAt(mounts, path))])
  const [program = '', ...args] = [...enter, '/bin/sh', '-c', SCRIPT, 'sh', ...words]
  return new Promise((resolve) => {
    execFile(program, args, { timeout: REMOUNT_MS, env: { PATH: '/usr/bin:/bin' }, cwd: '/' }, (error, _out, stderr) =>
      resolve(error === null ? undefined : (stderr.trim() || error.message).slice(0, 300)),
    )
  })
}

// ---- details ----

const REMOUNT_MS = 5_000

/** Pairs of a path and the options that make its mount read-only. */
const SCRIPT = `while [ $# -gt 0 ]; do
  mount --bind "$1" "$1" || exit 1
  [ -z "$2" ] || mount -o "$2" "$1" || exit 1
  shift 2
done`

/** A user may not clear what the mount below is locked to, so all of its options are repeated. */
const readOnly = (options: readonly string[]): string =>
  ['remount', 'bind', 'ro', ...options.filter((option) => option !== 'ro' && option !== 'rw')].join(',')

/**
 * Root may enter a mount namespace directly. A user first has to enter the user namespace that owns it: bubblewrap has made
 * another one inside, in which it has no rights, so the owner is asked from the kernel.
 */
function entering(pid: number, { nsenter, perl }: RemountTools): readonly string[] | undefined {
  if (process.getuid?.() === 0 && nsenter !== null) return [nsenter, '-t', String(pid), '-m', '--']
  const setns = SETNS[process.arch]
  if (perl === null || setns === undefined) return undefined
  return [perl, '-e', ENTER, String(setns), String(pid)]
}

const SETNS: Readonly<Record<string, number>> = { x64: 308, arm64: 268 }

const ENTER = `my ($setns, $pid, @rest) = @ARGV;
open(my $mounts, '<', "/proc/$pid/ns/mnt") or die "no such sandbox: $!";
my $owner = ioctl($mounts, 0xb701, 0) or die "its owner is not known: $!"; # NS_GET_USERNS
syscall($setns + 0, $owner + 0, 0) == 0 or die "cannot enter its user namespace: $!";
syscall($setns + 0, fileno($mounts), 0) == 0 or die "cannot enter its mount namespace: $!";
exec { $rest[0] } @rest;
exit 127`
