/**
 * A session's events as one sequence, over as many connections as it takes.
 *
 * I1  Every event once, in order: `position.ts` drops those received before, and finds a gap.
 * I2  Only a `reset` starts over, from event 1.
 * I3  It ends when the caller's signal aborts, or with a Fault that no reconnect can cure. A daemon that is away is looked for
 *     forever, unless the client has its own policy.
 */
import { isFault, type ReportedFault, reportedFault } from '@breakfall/faults/caller'
import type { SessionEvent } from '@breakfall/wire'
import type { StreamItem } from './connection.ts'
import { checked, jsonOrText } from './http.ts'
import { type Cursor, EventPosition } from './position.ts'
import { isClosing, isKnownType, isNumbered, isSessionEvent } from './event-shapes.ts'
import type { SseFrame } from './wire.ts'

export type EventsOptions = {
  /** A cursor (`JOURNAL-SEQ`, as in the id of an SSE event) or a bare sequence number. Default: from the first event. */
  readonly after?: string | number | undefined
  /** Ends the sequence without an error. */
  readonly signal?: AbortSignal | undefined
  /** The cursor came from another journal. Events follow from 1: drop what you built from earlier ones. */
  readonly onReset?: ((reason: string) => void) | undefined
  /** Two attempts in a row failed. Called once per outage. */
  readonly onUnreachable?: ((url: string) => void) | undefined
}

/** `connect` opens one connection at a cursor; `retrying` repeats a failed attempt as the policy says, `failed` being the first failure. */
export type EventSource = {
  readonly connect: (cursor: Cursor | undefined) => AsyncGenerator<StreamItem>
  readonly retrying: <T>(act: () => Promise<T>, failed: ReportedFault | undefined) => Promise<T>
}

export async function* readEvents(source: EventSource, options: EventsOptions): AsyncGenerator<SessionEvent> {
  const { signal, onReset } = options
  const position = new EventPosition(options.after)
  let broken: ReportedFault | undefined
  try {
    while (signal?.aborted !== true) {
      const items = await source.retrying(() => open(source.connect(position.cursor)), broken) // I3
      broken = closedFault([]) // unless an event comes: a connection that brings none is not reopened at once
      try {
        for await (const item of items) {
          const event = item === 'heartbeat' ? undefined : eventIn(item, position, onReset)
          if (event === undefined) continue
          broken = undefined
          yield event
        }
      } catch (thrown) {
        if (!isFault(thrown)) throw thrown
        broken = thrown // the next connection continues at the cursor, if it is worth opening one
      }
    }
  } catch (thrown) {
    if (signal?.aborted !== true) throw thrown // I3
  }
}

// ---- details, in the order they are used above ----

/** The event in a frame. Undefined for a frame without one, for one received before, and for a type that only a newer version knows. */
function eventIn(
  frame: SseFrame,
  position: EventPosition,
  onReset: EventsOptions['onReset'],
): SessionEvent | undefined {
  if (frame.event === 'reset') {
    position.reset()
    onReset?.(reasonOf(frame))
  }
  if (frame.id === undefined) return undefined
  const event = checked(jsonOrText(frame.data), isNumbered, 'an event')
  if (!position.take(event.seq, frame.id)) return undefined
  return isKnownType(event.type) ? checked(event, isSessionEvent, `a ${event.type} event`) : undefined
}

/** Waits for the first event, heartbeat or reset: a connection that closes before that is a failed attempt, and is retried with a delay. */
async function open(items: AsyncGenerator<StreamItem>): Promise<AsyncIterable<StreamItem>> {
  const early: StreamItem[] = []
  for (;;) {
    const { done, value } = await items.next()
    if (done === true) throw closedFault(early)
    early.push(value)
    if (value === 'heartbeat' || value.id !== undefined || value.event === 'reset') return joined(early, items)
  }
}

async function* joined(early: readonly StreamItem[], items: AsyncGenerator<StreamItem>): AsyncGenerator<StreamItem> {
  try {
    yield* early
    yield* items
  } finally {
    await items.return(undefined) // the caller may stop among the early ones
  }
}

const reasonOf = (frame: SseFrame): string => {
  const value = jsonOrText(frame.data)
  return isClosing(value) ? value.reason : 'unknown'
}

function closedFault(items: readonly StreamItem[]): ReportedFault {
  const closed = items.filter((item) => item !== 'heartbeat').find(({ event }) => event === 'closed')
  const reason = closed === undefined ? 'without a reason' : reasonOf(closed)
  return reportedFault('daemon_unreachable', {
    error: 'The daemon closed the stream before the first event. Reconnecting.',
    errorRaw: `closed: ${reason}`,
  })
}
