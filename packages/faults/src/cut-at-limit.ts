/** A tool call that the limit on output tokens cut: the same request would be cut again, so the next one has to differ. Pure. */
import type { FaultReport } from './report.ts'

/** The reason of such a fault. */
export const OUTPUT_LIMIT = 'output_limit'

export const isCutAtLimit = ({ category, reason }: Pick<FaultReport, 'category' | 'reason'>): boolean =>
  category === 'tool_call_truncated' && reason === OUTPUT_LIMIT
