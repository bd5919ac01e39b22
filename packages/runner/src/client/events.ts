/**
 * The events of an exec as one unbroken stream: connections that end early are made again and resumed after the last
 * event that was handed out.
 *
 * I1  Never throws once iterated; the last event is `exit` or `fault`, exactly one.
 * I2  Each event once, in order: what was seen before is skipped, a hole is a protocol error.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { classify, Fault, isFault, LIMITS } from '@breakfall/faults'
import { type ExecEvent, execEventSchema, SseDecoder, type SseFrame } from '@breakfall/wire'
import type { RunnerAnswer } from './http.ts'
import { isPassing } from './retry.ts'

export type ExecStreamEvent = ExecEvent | { readonly type: 'fault'; readonly fault: Fault }

export type EventSourceOptions = {
  readonly after: number
  /** False: one connection; its end is the stream's, for callers that make the next one themselves. */
  readonly reconnect: boolean
  readonly signal: AbortSignal | undefined
  readonly open: (after: number) => Promise<RunnerAnswer>
  readonly failed: (error: unknown) => Fault
  /** From 0 to 1. */
  readonly dice: () => number
}

export async function* followEvents(options: EventSourceOptions): AsyncGenerator<ExecStreamEvent, void, undefined> {
  let after = options.after
  let failures = 0
  let quietSinceMs = performance.now()
  for (;;) {
    try {
      for await (const event of oneConnection(await options.open(after))) {
        if (event.type === 'going-away') break
        if (event.seq <= after) continue // I2
        if (event.type !== 'gap' && event.seq !== after + 1)
          throw new Fault('runner_protocol_error', { error: `the runner skipped from event ${after} to ${event.seq}` })
        after = event.seq
        failures = 0
        quietSinceMs = performance.now()
        yield event
        if (event.type === 'exit') return // I1
      }
      throw new Fault('runner_unreachable', { phase: 'stream', errorRaw: 'the event stream ended before the exec did' })
    } catch (error) {
      failures += 1
      const fault = verdict(error, options)
      const isSpent = failures >= LIMITS.resolvesMax || performance.now() - quietSinceMs > LIMITS.resolveMsMax
      if (!options.reconnect || !isPassing(fault) || isSpent) {
        yield { type: 'fault', fault } // I1
        return
      }
      if (!(await paused(failures, options))) {
        yield {
          type: 'fault',
          fault: classify(undefined, { boundary: 'runner', phase: 'stream', signal: options.signal }),
        }
        return
      }
    }
  }
}

// ---- details ----

const DELAY_MS_FIRST = 50
const DELAY_MS_MAX = 4_000

function verdict(error: unknown, options: EventSourceOptions): Fault {
  if (options.signal?.aborted === true)
    return classify(error, { boundary: 'runner', phase: 'stream', signal: options.signal })
  return isFault(error) ? error : options.failed(error)
}

/** False where we were told to stop meanwhile. */
async function paused(failures: number, options: EventSourceOptions): Promise<boolean> {
  const ceiling = Math.min(DELAY_MS_MAX, DELAY_MS_FIRST * 2 ** (failures - 1))
  try {
    await sleep(
      ceiling * (0.5 + options.dice() / 2),
      undefined,
      options.signal === undefined ? {} : { signal: options.signal },
    )
    return true
  } catch {
    return false // aborted, and nothing else
  }
}

async function* oneConnection(answer: RunnerAnswer): AsyncGenerator<ExecEvent, void, undefined> {
  const frames: SseFrame[] = []
  const decoder = new SseDecoder({ onEvent: (frame) => frames.push(frame) })
  for await (const chunk of answer.body as AsyncIterable<Buffer>) {
    decoder.push(chunk)
    for (const frame of frames.splice(0)) yield parseEvent(frame)
  }
}

function parseEvent(frame: SseFrame): ExecEvent {
  try {
    return execEventSchema.parse(JSON.parse(frame.data))
  } catch (cause) {
    throw new Fault('runner_protocol_error', { cause, facts: { detail: 'an event that is none of ours' } })
  }
}
