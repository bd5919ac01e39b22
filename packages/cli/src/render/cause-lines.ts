/** Why a command failed, as far as the runner knows, and what helps. Pure. */
import type { Diagnostic } from '@breakfall/faults'

/** `end`: how the command ended, such as `exit 137`. The causes follow it in the same line. */
export function withCauses(end: string, diagnostics: readonly Diagnostic[]): string {
  const causes = diagnostics.filter(isCause).map((diagnostic) => sentence(diagnostic, end))
  const flag = diagnostics.some(isOutOfMemory) ? '; in a new session: --memory-mb NUMBER' : ''
  return causes.length === 0 ? end : `${end}: ${causes.join('; ')}${flag}`
}

// ---- details, in the order they are used above ----

/** What `refusedLine` reports has a line of its own. */
const isCause = ({ id, rank }: Diagnostic): boolean =>
  (rank === 'cause' && id !== 'network_denied') || id === 'oom_killed_child'

/** A command that could not start has its cause in its text already. */
const sentence = ({ message, advice }: Diagnostic, end: string): string =>
  end.includes(message) ? advice : `${message}; ${advice}`

const isOutOfMemory = ({ id }: Diagnostic): boolean => id.startsWith('oom_killed')
