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
    `Commands start in ${workspace.path}. Files there, in $TMPDIR and in ~ stay; processes end with their command unless it runs with background.`,
    networkLine(network),
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

export function networkLine(network: Box['network']): string {
  if (network === 'none') return 'Network: none, not even for downloads. This is policy and not a fault.'
  if (network === 'host') return "Network: the machine's."
  const names = network.allow.length === 0 ? 'nothing' : network.allow.join(', ')
  return `Network: only ${names}; other names do not resolve, and addresses without a name are refused. This is policy and not a fault.`
}

export const isNetworkLine = (line: string): boolean => line.startsWith('Network: ')

const mounted = ({ path, mode }: { readonly path: string; readonly mode: 'ro' | 'rw' }): string =>
  `${path}${mode === 'ro' ? ' (read-only)' : ''}`

function limitsIn({ memoryMb, pids }: Box['limits']): readonly string[] {
  const limits = [
    ...(memoryMb === null ? [] : [`${memoryMb} MiB of memory`]),
    ...(pids === null ? [] : [`${pids} processes`]),
  ]
  return limits.length === 0 ? [] : [`Limits: ${limits.join(', ')}.`]
}
