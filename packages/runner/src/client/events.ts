/**
 * The events of an exec as one unbroken stream: a connection that ends early is opened again, after the last event that was
 * delivered.
 *
 * I1  Never throws once iterated. The last event is `exit` or `fault`, exactly one.
 * I2  Each event once, in order. Events that were seen before are skipped; a gap is a protocol error.
 */
import { classify, Fault, isFault, retrying } from '@breakfall/faults'
import { type ExecEvent, execEventSchema, SseDecoder, type SseFrame } from '@breakfall/wire'
import { type RunnerAnswer, RUNNER_AWAY } from './http.ts'

export type ExecStreamEvent = ExecEvent | { readonly type: 'fault'; readonly fault: Fault }

export type EventSourceOptions = {
  readonly after: number
  /** False: the stream ends with its first connection, for callers that open the next one themselves. */
  readonly reconnect: boolean
  readonly signal: AbortSignal | undefined
  readonly open: (after: number) => Promise<RunnerAnswer>
  readonly failed: (error: unknown) => Fault
  /** From 0 to 1. */
  readonly dice: () => number
}

export async function* followEvents(options: EventSourceOptions): AsyncGenerator<ExecStreamEvent, void, undefined> {
  const { signal, dice, reconnect } = options
  let { after } = options
  let failed: Fault | undefined
  try {
    for (;;) {
      const connect = (): Promise<Connection> => connected(options, after)
      const events = reconnect
        ? await retrying(connect, { policy: RUNNER_AWAY, signal, dice, failed })
        : await connect()
      try {
        for await (const event of events) {
          if (event === 'heartbeat' || event.seq <= after) continue // I2
          if (event.type !== 'gap' && event.seq !== after + 1) throw gapFault(after, event.seq)
          after = event.seq
          yield event
          if (event.type === 'exit') return // I1
        }
        throw endedEarly()
      } catch (error) {
        failed = faultOf(error, options)
        if (!reconnect) throw failed
      }
    }
  } catch (error) {
    yield { type: 'fault', fault: faultOf(error, options) } // I1
  }
}

// ---- details, in the order they are used above ----

type Numbered = Exclude<ExecEvent, { type: 'going-away' }>
type Connection = AsyncIterable<Numbered | 'heartbeat'>

/** Waits for the first sign of life: a runner that accepts a connection and drops it has not answered. */
async function connected(options: EventSourceOptions, after: number): Promise<Connection> {
  try {
    const events = oneConnection(await options.open(after))
    const first = await events.next()
    if (first.done === true) throw endedEarly()
    return withFirst(first.value, events)
  } catch (error) {
    throw faultOf(error, options)
  }
}

async function* withFirst<T>(first: T, rest: AsyncGenerator<T, void, undefined>): AsyncGenerator<T, void, undefined> {
  try {
    yield first
    yield* rest
  } finally {
    await rest.return() // a caller may stop at the first event
  }
}

/** Ends where the runner says that it is shutting down. */
async function* oneConnection(answer: RunnerAnswer): AsyncGenerator<Numbered | 'heartbeat', void, undefined> {
  const ready: (SseFrame | 'heartbeat')[] = []
  const decoder = new SseDecoder({
    onEvent: (frame) => ready.push(frame),
    onComment: () => ready.push('heartbeat'),
  })
  const chunks: AsyncIterable<Buffer> = answer.body
  for await (const chunk of chunks) {
    decoder.push(chunk)
    for (const item of ready.splice(0)) {
      const event = item === 'heartbeat' ? item : parseEvent(item)
      if (event !== 'heartbeat' && event.type === 'going-away') return
      yield event
    }
  }
}

function parseEvent(frame: SseFrame): ExecEvent {
  try {
    return execEventSchema.parse(JSON.parse(frame.data))
  } catch (cause) {
    throw new Fault('runner_protocol_error', { cause, facts: { detail: 'an unknown event' } })
  }
}

const gapFault = (after: number, seq: number): Fault =>
  new Fault('runner_protocol_error', {
    phase: 'stream',
    reason: 'events_skipped',
    error: `The runner skipped from event ${after} to ${seq}.`,
  })

const endedEarly = (): Fault =>
  new Fault('runner_unreachable', { phase: 'stream', errorRaw: 'the event stream ended before the exec did' })

function faultOf(error: unknown, { signal, failed }: EventSourceOptions): Fault {
  if (signal?.aborted === true) return classify(error, { boundary: 'runner', phase: 'stream', signal })
  return isFault(error) ? error : failed(error)
}
