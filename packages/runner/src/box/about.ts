/** A box in sentences, for the model that works in it. Pure; the same box gives the same sentences. */
import type { Box } from '@breakfall/wire'

export function aboutBox(
  box: Pick<Box, 'isolation' | 'workspace' | 'network' | 'limits' | 'mounts'>,
  uid: number,
  runtimes: readonly string[],
): readonly string[] {
  const { isolation, workspace, network, mounts = [] } = box
  const isSandbox = isolation.level === 'bwrap'
  return [
    isSandbox
      ? `Linux sandbox, uid ${uid}, no sudo, no docker.`
      : "No sandbox: commands run on the machine itself, as the runner's user.",
    `Commands start in ${workspace.path}. Files there, in $TMPDIR and in ~ stay; processes end with their command.`,
    network === 'none'
      ? 'Network: none, not even for downloads. This is policy and not a fault.'
      : "Network: the machine's.",
    isSandbox
      ? '~ is private to this box. Toolchains in it are read-only: install into the workspace or with --user, not globally.'
      : 'HOME is a private folder.',
    ...(runtimes.length === 0 ? [] : [`Found on the PATH: ${runtimes.join(', ')}.`]),
    ...(mounts.length === 0 ? [] : [`Also visible: ${mounts.map(mounted).join(', ')}.`]),
    ...(isSandbox && workspace.kind === 'host' ? ['.git/config, .git/hooks and breakfall.toml are read-only.'] : []),
    ...limitsIn(box.limits),
  ]
}

// ---- details ----

const mounted = ({ path, mode }: { readonly path: string; readonly mode: 'ro' | 'rw' }): string =>
  `${path}${mode === 'ro' ? ' (read-only)' : ''}`

function limitsIn({ memoryMb, pids }: Box['limits']): readonly string[] {
  const limits = [
    ...(memoryMb === null ? [] : [`${memoryMb} MiB of memory`]),
    ...(pids === null ? [] : [`${pids} processes`]),
  ]
  return limits.length === 0 ? [] : [`Limits: ${limits.join(', ')}.`]
}
