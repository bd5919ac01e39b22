/** Asks the runner for all of an exec's output. The journal has only the head and the tail of a long one. */
import { classify, Fault, isFault } from '@breakfall/faults'
import type { OutputAnswer } from '@breakfall/runner/client'
import type { SessionRow } from '../rows.ts'
import type { Runners } from '../runner/runners.ts'
import { isStale, runnerFault } from '../boxes/runner-call.ts'

export type OutputRequest = {
  readonly sessionId: string
  readonly execId: string
  readonly stream: 'stdout' | 'stderr'
  /** A `Range` header, as the caller sent it. */
  readonly range: string | undefined
  readonly signal: AbortSignal
}

export async function storedOutput(runners: Runners, row: SessionRow, request: OutputRequest): Promise<OutputAnswer> {
  const { execId, stream, range, signal } = request
  const boxId = row.data.box.id ?? row.id
  if (row.data.runnerId === null) throw gone(execId, 'this session never had a box')
  const { client, address } = await runners.connect(row.data.runnerId, row.epoch, signal)
  try {
    return await client.openOutput(boxId, execId, stream, { range, signal })
  } catch (thrown) {
    if (isStale(thrown)) runners.forget(address)
    if (isFault(thrown) && thrown.category === 'box_not_found') throw gone(execId, 'its box was removed')
    if (isFault(thrown) && thrown.category === 'exec_not_found')
      throw gone(execId, 'the runner does not know this command, or has forgotten it')
    throw isFault(thrown) ? runnerFault(thrown, boxId) : classify(thrown, { boundary: 'runner', boxId })
  }
}

// ---- details ----

const gone = (execId: string, why: string): Fault =>
  new Fault('exec_not_found', {
    error: `The output of ${execId} is no longer kept: ${why}. The journal still has its beginning and its end: breakfall tail SESSION --no-follow`,
    errorRaw: why,
    execId,
  })
