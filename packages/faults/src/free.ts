/** Which failed attempts at an answer cost nothing, so time bounds them and not their number. Pure. */
import type { FaultReport } from './report.ts'
import type { AnswerSituation } from './situation.ts'
import type { FaultCategory } from './categories.ts'

/**
 * The server was away, loading, overloaded or broken before the model began to answer. A timeout is not free: the server has
 * the request and may be working on it. Neither is an answer that ended before it said anything.
 */
export function costsNothing(
  { category, phase }: Pick<FaultReport, 'category' | 'phase'>,
  { contentStarted }: Pick<AnswerSituation, 'contentStarted'>,
): boolean {
  if (contentStarted) return false
  return FREE_IN_STREAM.has(category) || (phase !== 'stream' && FREE_BEFORE_STREAM.has(category))
}

// ---- details ----

/** Some servers report these inside a stream that they began with status 200. */
const FREE_IN_STREAM: ReadonlySet<FaultCategory> = new Set<FaultCategory>(['model_overloaded', 'model_rate_limited'])
const FREE_BEFORE_STREAM: ReadonlySet<FaultCategory> = new Set<FaultCategory>([
  'network_down',
  'model_unreachable',
  'model_server_error',
  'model_stream_interrupted', // the connection broke before the headers came
])
