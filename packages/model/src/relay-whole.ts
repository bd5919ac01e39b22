/** Relays one answer that is asked for in one piece: it goes out when it is whole, and not before. */
import type { IncomingHttpHeaders } from 'node:http'
import { classify, Fault, type FaultReport } from '@breakfall/faults'
import { type AttemptEnd, type AttemptReader, type ReadState, type Refusal, startAttempt } from './attempt.ts'
import { sleep } from './clock.ts'
import { createDecoder } from './decoder.ts'
import { inBandError } from './in-band.ts'
import { attemptUsage, recordOf } from './ledger.ts'
import { type AnswerDecoder, partCounter } from './parts.ts'
import { judge } from './proof.ts'
import { refusalFault } from './refusal.ts'
import { errorAnswer, toldInBand } from './relay-error.ts'
import { clientHeaders, modelOf, profileOf, requiredIn, upstreamRequest } from './relay-request.ts'
import { relayLadder } from './relay-stream.ts'
import type { RelayOutcome, RelayRequest, RelaySink, RelayTarget, ResolvedRelayOptions } from './relay.ts'
import { wholeJson } from './whole.ts'

export async function relayWhole(
  request: RelayRequest,
  targets: readonly RelayTarget[],
  sink: RelaySink,
  options: ResolvedRelayOptions,
): Promise<RelayOutcome> {
  const ladder = relayLadder(targets, options)
  const { signal, now, onEvent } = options
  const ended = (fault: Fault): RelayOutcome =>
    fault.class === 'cancelled'
      ? { status: 499, fault: fault.report, ledger: ladder.ledger, contentSent: false }
      : refused(request, fault.report, undefined, sink, ladder.ledger)
  for (;;) {
    if (signal.aborted) return ended(classify(undefined, { boundary: 'client', signal }))
    const { attempt } = ladder
    const target = targets[ladder.target] as RelayTarget
    onEvent({ type: 'attempt-start', attempt, baseUrl: target.baseUrl })
    const reader = new WholeReader(request)
    const startedAt = new Date(now()).toISOString()
    const end = await startAttempt(upstreamRequest(request, target, ''), reader, options.policy, signal).end
    const fault = faultOf(end, reader, request, target, options)
    const facts = {
      attempt,
      model: modelOf(request, target),
      baseUrl: target.baseUrl,
      startedAt,
      end,
      resumed: false,
      usage: attemptUsage(end, reader.decoder.state),
    }
    if (fault === undefined) {
      ladder.record(recordOf({ ...facts, fault: null, action: null, delayMs: 0 }))
      if (attempt > 1) onEvent({ type: 'healed', attempt, how: 'retry' })
      send(sink, reader.status, clientHeaders(reader.headers), reader.body)
      return { status: reader.status, fault: null, ledger: ladder.ledger, contentSent: true }
    }
    if (signal.aborted) return ended(fault)
    const rung = ladder.fail(fault, false)
    const { action, delayMs } = rung
    ladder.record(recordOf({ ...facts, fault: rung.fault, action, delayMs }))
    onEvent({ type: 'attempt-failed', attempt, fault: rung.fault, action, delayMs, afterContent: false })
    if (action === 'stop' || action === 'park' || action === 'compact')
      return refused(request, rung.fault, end.refusal ?? reader.told(rung.fault), sink, ladder.ledger)
    await sleep(delayMs, signal)
    ladder.climb(rung)
  }
}

// ---- details ----

class WholeReader implements AttemptReader {
  readonly decoder: AnswerDecoder
  status = 0
  headers: IncomingHttpHeaders = {}
  body: Buffer = Buffer.alloc(0)
  progress = 0
  #isError = false
  readonly prefersWhole = true

  constructor(request: RelayRequest) {
    this.decoder = createDecoder(request.api, { text: () => undefined, tool: () => undefined }, partCounter())
  }

  head(status: number, headers: IncomingHttpHeaders): void {
    this.status = status
    this.headers = headers
  }

  frame(): ReadState {
    throw new Fault('model_server_error', {
      phase: 'stream',
      facts: { detail: 'it streamed although an answer in one piece was asked for' },
    })
  }

  whole(body: Buffer, contentType: string): void {
    this.body = body
    const json = wholeJson(body, contentType)
    this.#isError = inBandError(json) !== undefined
    this.decoder.whole(json)
  }

  /** The error that came with status 200, where one did. */
  told(fault: FaultReport): Refusal | undefined {
    return this.#isError ? toldInBand(fault, this.body) : undefined
  }
}

function faultOf(
  end: AttemptEnd,
  reader: WholeReader,
  request: RelayRequest,
  target: RelayTarget,
  options: ResolvedRelayOptions,
): Fault | undefined {
  if (end.refusal !== undefined) return refusalFault(end.refusal, options.signal, options.now(), target.baseUrl)
  if (end.fault !== undefined) return end.fault
  const verdict = judge(reader.decoder.state, request.api, profileOf(target), requiredIn(request.json))
  return verdict.complete || verdict.fault.category === 'model_content_filtered' ? undefined : verdict.fault
}

function refused(
  request: RelayRequest,
  fault: FaultReport,
  refusal: Refusal | undefined,
  sink: RelaySink,
  ledger: RelayOutcome['ledger'],
): RelayOutcome {
  const answer = errorAnswer(request.api, fault, refusal)
  send(sink, answer.status, answer.headers, answer.body)
  return { status: answer.status, fault, ledger, contentSent: false }
}

function send(sink: RelaySink, status: number, headers: Record<string, string>, body: string | Buffer): void {
  sink.head(status, { ...headers, 'content-length': String(Buffer.byteLength(body)) })
  sink.write(body)
  sink.end()
}
