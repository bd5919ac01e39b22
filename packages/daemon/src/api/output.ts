/** The output of an exec, byte for byte from the runner: callers of the daemon have no token for the runner. */
import { pipeline } from 'node:stream/promises'
import { Fault, isFault } from '@breakfall/faults'
import type { OutputAnswer } from '@breakfall/runner/client'
import type { RequestContext } from '@breakfall/wire/node'
import type { OutputRequest } from '@breakfall/engine'

const STREAMS = ['stdout', 'stderr'] as const

export function outputRequestOf({ params, req, signal }: RequestContext): OutputRequest {
  const stream = STREAMS.find((name) => name === params['stream'])
  if (stream === undefined) throw new Fault('not_found', { facts: { name: 'such stream; use stdout or stderr' } })
  const { range } = req.headers
  return { sessionId: params['id'] ?? '', execId: params['execId'] ?? '', stream, range, signal }
}

/** A 416 says how long the output is, as the runner's did. */
export async function orUnsatisfiable({ res }: RequestContext, opening: Promise<OutputAnswer>): Promise<OutputAnswer> {
  try {
    return await opening
  } catch (thrown) {
    if (isFault(thrown) && thrown.category === 'range_not_satisfiable' && SIZE.test(thrown.report.errorRaw))
      res.setHeader('content-range', thrown.report.errorRaw)
    throw thrown
  }
}

const SIZE = /^bytes \*\/\d+$/

export async function relayOutput({ res, method }: RequestContext, output: OutputAnswer): Promise<void> {
  res.writeHead(output.status, output.headers)
  if (method === 'HEAD') {
    output.body.destroy()
    res.end()
    return
  }
  await pipeline(output.body, res)
}
