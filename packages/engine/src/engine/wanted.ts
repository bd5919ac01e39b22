/** What a session asks of its runner. */
import type { Wanted } from '../runner/placement.ts'
import type { SessionData } from '../rows.ts'

export const wantedOf = ({ placement, box }: Pick<SessionData, 'placement' | 'box'>): Wanted => ({
  labels: placement?.labels ?? [],
  replace: placement?.replace,
  isolation: box.isolation?.min,
  workspace: box.workspace,
})
