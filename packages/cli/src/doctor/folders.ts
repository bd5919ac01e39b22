/** The doctor's check of the folders that callers of the API may use, each once, with who allowed it. */
import { readEarlierFolders } from '@breakfall/daemon'
import type { ResolvedConfig } from '../config/resolve.ts'
import type { Finding } from './finding.ts'

/** `atDaemon`: what the running daemon allows. */
export function checkFolders(
  { runner, stateDir }: Pick<ResolvedConfig, 'runner' | 'stateDir'>,
  atDaemon: readonly string[],
): readonly Finding[] {
  const named = new Set(runner.allowWorkspace)
  const folders = [
    ...[...named].map((folder) => `${folder} ([runner] allowWorkspace)`),
    ...atDaemon.filter((folder) => !named.has(folder)).map((folder) => `${folder} (the daemon's --allow-workspace)`),
  ]
  const { dropped } = readEarlierFolders(stateDir)
  return [
    ...(folders.length === 0
      ? []
      : [{ check: CHECK, verdict: 'ok', found: `callers of the API may use ${folders.join(', ')}` } as const]),
    ...(dropped.length === 0
      ? []
      : [
          {
            check: CHECK,
            verdict: 'warn',
            found: `runs of an earlier version had opened ${dropped.join(', ')} to every caller of the API; this is over`,
            fix: `if that was not your intention, look at what was done there; then remove ${stateDir}/earlier-folders.json`,
          } as const,
        ]),
  ]
}

const CHECK = 'folders'
