/**
 * A session's events over SSE: replay, then live, without a gap.
 *
 * A reader that reads nothing while much is published, or for too long, is closed with a reason. It has its cursor, so it loses
 * nothing, and no other reader is affected.
 */
import { Fault } from '@breakfall/faults'
import { encodeSse, parseCursor, resumeFrom, type SseFrame, type StreamNotice } from '@breakfall/wire'
import { type RequestContext, SseResponse } from '@breakfall/wire/node'
import { type FedEvent, type Feed, REWOUND, type SessionReading } from '@breakfall/engine'
import type { DaemonLimits } from '../options.ts'

export type Start = { readonly after: number; readonly reset: string | null }

/** Where a reader starts. A malformed cursor is a 400; a cursor that does not fit the journal causes a reset. */
export function startOf(session: Pick<SessionReading, 'journal' | 'feed'>, given: string | number | undefined): Start {
  const cursor = parseCursor(given)
  if (cursor === undefined) {
    throw new Fault('invalid_request', {
      error: 'The cursor is invalid. Send JOURNAL-SEQ, as in the id of an event, or a bare sequence number.',
      errors: [{ field: 'after', expected: 'JOURNAL-SEQ or a seq', got: String(given).slice(0, 100) }],
    })
  }
  return resumeFrom(cursor, session.journal, session.feed.head)
}

export async function streamEvents(
  context: RequestContext,
  session: SessionReading,
  limits: DaemonLimits,
): Promise<void> {
  // An EventSource that reconnects sends the same `after` again, and its position in the header.
  const given = headerOf(context, 'last-event-id') ?? context.query.get('after') ?? undefined
  const { after, reset } = startOf(session, given)
  const tail = session.feed.tail(after, context.signal)
  // Before the status is sent: a damaged journal is refused. A connection that broke off would only be made again.
  const replayed = after < session.feed.head ? await tail.next() : undefined
  const sse = new SseResponse(context.res, { heartbeatMs: limits.heartbeatMs })
  if (reset !== null) sse.send(notice('reset', reset))
  for await (const events of continued(replayed, tail)) {
    if (!written(context, events) && !(await isTaken(sse.drained(), session.feed, limits))) {
      return closeSlow(context, sse, limits.readerLingerMs)
    }
  }
  if (session.feed.ended === REWOUND) sse.send(notice('reset', REWOUND)) // what this reader has is not the journal any more
  if (session.feed.ended !== undefined) sse.send(notice('closed', session.feed.ended))
  sse.end()
}

/** True once the reader has received what it was sent; false if it is too far behind or too slow. */
export async function isTaken(taken: Promise<unknown>, feed: Feed, limits: DaemonLimits): Promise<boolean> {
  const before = feed.published
  const from = performance.now()
  const done = taken.then(() => true)
  for (;;) {
    if (await Promise.race([done, tick()])) return true
    const isBehind = feed.published - before > limits.readerLagBytesMax
    if (isBehind || performance.now() - from > limits.readerStallMsMax) return false
  }
}

// ---- details ----

async function* continued(
  first: IteratorResult<readonly FedEvent[], void> | undefined,
  rest: ReturnType<Feed['tail']>,
): ReturnType<Feed['tail']> {
  try {
    if (first?.done === true) return
    if (first !== undefined) yield first.value
    yield* rest
  } finally {
    await rest.return()
  }
}

function notice(event: 'reset' | 'closed', reason: string): SseFrame {
  return { event, data: JSON.stringify({ reason } satisfies StreamNotice) }
}

/** How often a slow reader is checked. */
function tick(): Promise<false> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(false), 250).unref()
  })
}

const headerOf = (context: RequestContext, name: string): string | undefined => {
  const value = context.req.headers[name]
  return typeof value === 'string' ? value : undefined
}

const LARGE_BYTES = 16 * 1024

/** False if the reader is slow. Large events are written as bytes that all readers share, small ones in one buffer. */
function written({ res }: RequestContext, events: readonly FedEvent[]): boolean {
  let isTaken = true
  let small: Buffer[] = []
  const flush = (...more: Buffer[]): void => {
    for (const bytes of [...(small.length > 1 ? [Buffer.concat(small)] : small), ...more]) isTaken = res.write(bytes)
    small = []
  }
  for (const { sse } of events) {
    if (sse.length < LARGE_BYTES) small.push(sse)
    else flush(sse)
  }
  flush()
  return isTaken
}

function closeSlow(context: RequestContext, sse: SseResponse, lingerMs: number): void {
  context.res.write(encodeSse(notice('closed', 'slow_consumer')))
  sse.end()
  setTimeout(() => context.res.destroy(), lingerMs).unref()
}
