/**
 * A session's events as one sequence, over as many connections as it takes.
 *
 * I1  Every event once, in order. The next connection asks for what follows the last event received.
 * I2  Only a `reset` starts over: the cursor belongs to another journal. Then events count from 1 again.
 * I3  It ends when the caller's signal aborts, or with a Fault that no reconnect can cure. A daemon that is away is looked for
 *     forever, unless the client has its own policy.
 */
import { isFault, type ReportedFault, reportedFault } from '@breakfall/faults/caller'
import type { SessionEvent } from '@breakfall/wire'
import type { StreamItem } from './connection.ts'
import { checked, jsonOrText } from './http.ts'
import { isClosing, isKnownType, isNumbered, isSessionEvent } from './shapes.ts'
import { parseCursor, type SseFrame } from './wire.ts'

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
  readonly connect: (cursor: string | undefined) => AsyncGenerator<StreamItem>
  readonly retrying: <T>(act: () => Promise<T>, failed: ReportedFault | undefined) => Promise<T>
}

export async function* readEvents(source: EventSource, options: EventsOptions): AsyncGenerator<SessionEvent> {
  const { signal } = options
  const position = new StreamPosition(options)
  let broken: ReportedFault | undefined
  try {
    while (signal?.aborted !== true) {
      const items = await source.retrying(() => open(source.connect(position.cursor)), broken) // I3
      broken = closedFault([]) // unless an event comes: a connection that brings none is not reopened at once
      try {
        for await (const item of items) {
          const event = item === 'heartbeat' ? undefined : position.take(item)
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

/** How far the reader is. */
class StreamPosition {
  cursor: string | undefined
  readonly #onReset: EventsOptions['onReset']
  #seq: number

  constructor({ after, onReset }: EventsOptions) {
    this.cursor = after === undefined ? undefined : String(after)
    this.#seq = parseCursor(after)?.seq ?? 0
    this.#onReset = onReset
  }

  /** Undefined for a frame without an event, and for an event type that only a newer version knows. */
  take(frame: SseFrame): SessionEvent | undefined {
    if (frame.event === 'reset') {
      this.#seq = 0 // I2
      this.cursor = undefined // the next connection must not ask for what follows in the other journal
      this.#onReset?.(reasonOf(frame))
    }
    if (frame.id === undefined) return undefined
    const event = checked(jsonOrText(frame.data), isNumbered, 'an event')
    if (event.seq <= this.#seq) return undefined // I1
    if (event.seq > this.#seq + 1) throw gapFault(this.#seq + 1, event.seq) // I1
    this.#seq = event.seq
    this.cursor = frame.id
    return isKnownType(event.type) ? checked(event, isSessionEvent, `a ${event.type} event`) : undefined
  }
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
  const closed = items.find((item) => item !== 'heartbeat' && item.event === 'closed')
  const reason = closed === undefined || closed === 'heartbeat' ? 'no reason given' : reasonOf(closed)
  return reportedFault('daemon_unreachable', {
    error: 'The daemon closed the event stream before the first event. Reconnecting.',
    errorRaw: `closed: ${reason}`,
  })
}

const gapFault = (expected: number, got: number): ReportedFault =>
  reportedFault('other', {
    boundary: 'daemon',
    error: `The daemon skipped events: expected number ${expected}, received ${got}.`,
    next: 'never',
  })
