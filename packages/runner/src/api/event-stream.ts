/** The events of an exec on a response: replay, then live, then the end; at the reader's pace. */
import type { ServerResponse } from 'node:http'
import { Fault } from '@breakfall/faults'
import type { ExecEvent } from '@breakfall/wire'
import { SseResponse } from '@breakfall/wire/node'
import type { ExecView } from '../box/execs.ts'
import { LogReader } from '../exec/log-reader.ts'
import { Turnstile } from '../exec/spawn-queue.ts'

/** One lot of events per turn of the event loop, whoever reads it. */
const lots = new Turnstile()

export async function streamEvents(
  exec: ExecView,
  after: number,
  res: ServerResponse,
  gone: AbortSignal,
  closing: AbortSignal,
  status = 200,
): Promise<void> {
  const reader = new LogReader(exec.folder, exec.id, after)
  const sse = new SseResponse(res, { status })
  const either = AbortSignal.any([gone, closing])
  try {
    while (sse.isOpen) {
      const { isOver, count } = exec // the state first: what is in the log by then is complete
      while (reader.at < count && sse.isOpen && !closing.aborted) {
        await lots.pass() // hundreds of readers of long logs must not keep the others waiting
        const before = reader.at
        for (const event of reader.read(count)) await send(sse, event)
        if (reader.at === before) throw new Fault('journal_corrupt', { boundary: 'runner', execId: exec.id, facts: {} })
      }
      if (closing.aborted) {
        sse.send({ event: 'going-away', data: JSON.stringify({ seq: reader.at, type: 'going-away' }) })
        break
      }
      if (isOver) {
        const { end } = exec
        if (end !== undefined && after < end.lastSeq) await send(sse, { seq: end.lastSeq, type: 'exit', ...end.exit })
        break
      }
      // What came while we were sending has been announced already: nobody would wake us for it again.
      if (exec.count === count && !exec.isOver) await exec.changed(either)
    }
    sse.end() // not where something was thrown: a stream that breaks must not look like one that ends
  } finally {
    reader.close()
  }
}

async function send(sse: SseResponse, event: ExecEvent): Promise<void> {
  if (!sse.send({ event: event.type, id: String(event.seq), data: JSON.stringify(event) })) await sse.drained()
}
