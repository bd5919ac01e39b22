/** Streams the events of an exec: replay, then live, then the end, at the reader's pace. */
import type { ServerResponse } from 'node:http'
import { Fault } from '@breakfall/faults'
import type { ExecEvent } from '@breakfall/wire'
import { SseResponse } from '@breakfall/wire/node'
import type { ExecView } from '../box/execs.ts'
import { LogReader } from '../exec/log-reader.ts'
import { Turnstile } from '../exec/spawn-queue.ts'

/** One batch of events per turn of the event loop, for all readers together. */
const batches = new Turnstile()

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
      const { isOver, count } = exec // read before the log, so if it is over, the log is complete
      while (reader.at < count && sse.isOpen && !closing.aborted) {
        await batches.pass() // hundreds of readers of long logs must not block other requests
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
      // Events that came while we were sending have already been announced; waiting would miss them.
      if (exec.count === count && !exec.isOver) await exec.changed(either)
    }
    sse.end() // not after an exception: a broken stream must not look like a finished one
  } finally {
    reader.close()
  }
}

async function send(sse: SseResponse, event: ExecEvent): Promise<void> {
  if (!sse.send({ event: event.type, id: String(event.seq), data: JSON.stringify(event) })) await sse.drained()
}
