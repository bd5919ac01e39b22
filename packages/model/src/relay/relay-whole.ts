/** Relays one answer that is asked for in one piece. It goes out once it is complete. */
import type { IncomingHttpHeaders } from 'node:http'
import { classify, Fault, type FaultReport, sleep } from '@breakfall/faults'
import type { AttemptRecord } from '../contract/answer.ts'
import type { RungAction } from '../machine/next-rung.ts'
import type { AttemptEnd, AttemptReader, ReadState, Refusal } from '../attempt/attempt.ts'
import { startAttempt } from '../attempt/start-attempt.ts'
import { DIALECTS } from '../dialects/dialects.ts'
import { isInBandError } from '../dialects/in-band.ts'
import { attemptUsage, recordOf } from '../attempt/ledger.ts'
import { type AnswerDecoder, partCounter } from '../dialects/read-answer.ts'
import { judge } from '../dialects/proof.ts'
import { refusalFault } from '../attempt/refusal.ts'
import { errorAnswer, inBandRefusal } from './relay-error.ts'
import { clientHeaders, modelOf, outputLimit, profileOf, requiredIn, upstreamRequest } from './relay-request.ts'
import { RelayRun } from './relay-run.ts'
import type {
  RelayOutcome,
  RelayRequest,
  RelaySink,
  ReturnedHeaders,
  RelayTarget,
  ResolvedRelayOptions,
} from './relay.ts'
import type { AttemptTrace } from '../attempt/attempt.ts'
import { wholeJson } from '../dialects/whole-answer.ts'
import type { MemoryShare } from '@breakfall/wire/node'

export async function relayWhole(
  request: RelayRequest,
  targets: readonly RelayTarget[],
  sink: RelaySink,
  options: ResolvedRelayOptions,
): Promise<RelayOutcome> {
  const run = new RelayRun(request.api, targets, options)
  const { ledger } = run
  const { signal } = options
  for (;;) {
    if (signal.aborted) return aborted(request, classify(undefined, { boundary: 'client', signal }), sink, ledger)
    const { target } = run
    run.begin()
    const attempt = new WholeAttempt(run.trace, request, target, options, run.emptyBefore)
    const fault = await attempt.run()
    if (fault === undefined) {
      run.complete(attempt.record(null, null, 0))
      const { status, headers, body } = attempt.reader
      await send(sink, status, clientHeaders(headers), body)
      return { status, fault: null, ledger, contentSent: true }
    }
    attempt.reader.memory.close()
    if (signal.aborted) return aborted(request, fault, sink, ledger)
    const rung = run.failed({
      fault,
      contentStarted: attempt.contentStarted,
      ...NOTHING_SENT,
      record: (...outcome) => attempt.record(...outcome),
    })
    if (!('delayMs' in rung)) return refused(request, rung.fault, attempt.refusal(rung.fault), sink, ledger)
    await sleep(rung.delayMs, signal)
  }
}

// ---- details ----

const NOTHING_SENT = { diverged: false, sent: [], contentSent: false, canReplay: true } as const

class WholeAttempt {
  readonly reader: WholeReader
  readonly #trace: AttemptTrace
  readonly #request: RelayRequest
  readonly #target: RelayTarget
  readonly #options: ResolvedRelayOptions
  readonly #startedAt: string
  readonly #emptyBefore: boolean
  #end: AttemptEnd | undefined

  constructor(
    trace: AttemptTrace,
    request: RelayRequest,
    target: RelayTarget,
    options: ResolvedRelayOptions,
    emptyBefore: boolean,
  ) {
    this.reader = new WholeReader(request, target, options.memory.part())
    this.#emptyBefore = emptyBefore
    this.#trace = trace
    this.#request = request
    this.#target = target
    this.#options = options
    this.#startedAt = new Date(options.now()).toISOString()
  }

  /** The fault, or undefined if the answer is complete. */
  async run(): Promise<Fault | undefined> {
    const { policy, signal, now } = this.#options
    const sent = { ...upstreamRequest(this.#request, this.#target, ''), trace: this.#trace }
    const end = await startAttempt(sent, this.reader, policy, signal).end
    this.#end = end
    if (end.refusal !== undefined) return refusalFault(end.refusal, signal, now(), this.#target.baseUrl)
    if (end.fault !== undefined) return end.fault
    const { answer } = this.reader.decoder
    const { api, json } = this.#request
    const judged = { emptyBefore: this.#emptyBefore, maxTokens: outputLimit(json) }
    const verdict = judge(answer, DIALECTS[api], profileOf(this.#target), requiredIn(json), judged)
    return verdict.complete || verdict.fault.category === 'model_content_filtered' ? undefined : verdict.fault
  }

  get contentStarted(): boolean {
    return this.reader.decoder.answer.progress > 0
  }

  /** The server's own answer, if that is an error. */
  refusal(fault: FaultReport): Refusal | undefined {
    return this.#end?.refusal ?? this.reader.inBandError(fault)
  }

  record(fault: FaultReport | null, action: RungAction | null, delayMs: number): AttemptRecord {
    return recordOf({
      attempt: this.#trace.attempt,
      model: modelOf(this.#request, this.#target),
      baseUrl: this.#target.baseUrl,
      startedAt: this.#startedAt,
      end: this.#end,
      resumed: false,
      usage: attemptUsage(this.#end, this.reader.decoder.answer),
      fault,
      action,
      delayMs,
    })
  }
}

class WholeReader implements AttemptReader {
  readonly decoder: AnswerDecoder
  status = 0
  headers: IncomingHttpHeaders = {}
  body: Buffer = Buffer.alloc(0)
  progress = 0
  #isError = false
  readonly prefersWhole = true
  readonly memory: MemoryShare

  constructor(request: RelayRequest, target: RelayTarget, memory: MemoryShare) {
    this.memory = memory
    const handler = { text: () => undefined, tool: () => undefined }
    const options = { everyJson: false, choices: 1, profile: profileOf(target) }
    this.decoder = DIALECTS[request.api].decoder(handler, partCounter(), options)
  }

  head(status: number, headers: IncomingHttpHeaders): void {
    this.status = status
    this.headers = headers
  }

  frame(): ReadState {
    throw new Fault('model_server_error', {
      phase: 'stream',
      facts: { detail: 'it streamed an answer that was asked for in one piece' },
    })
  }

  whole(body: Buffer, contentType: string): void {
    this.body = body
    const json = wholeJson(body, contentType, this.memory)
    this.#isError = isInBandError(json)
    this.decoder.whole(json)
  }

  /** The error that came with status 200, if one did. */
  inBandError(fault: FaultReport): Refusal | undefined {
    return this.#isError ? inBandRefusal(fault, this.body) : undefined
  }
}

/** The client is gone, or our own deadline passed. */
async function aborted(
  request: RelayRequest,
  fault: Fault,
  sink: RelaySink,
  ledger: RelayOutcome['ledger'],
): Promise<RelayOutcome> {
  if (fault.class !== 'cancelled') return refused(request, fault.report, undefined, sink, ledger)
  return { status: 499, fault: fault.report, ledger, contentSent: false }
}

async function refused(
  request: RelayRequest,
  fault: FaultReport,
  refusal: Refusal | undefined,
  sink: RelaySink,
  ledger: RelayOutcome['ledger'],
): Promise<RelayOutcome> {
  const answer = errorAnswer(request.api, fault, refusal)
  await send(sink, answer.status, answer.headers, answer.body)
  return { status: answer.status, fault, ledger, contentSent: false }
}

/** Ends when the client has taken it: until then, it is held. */
async function send(sink: RelaySink, status: number, headers: ReturnedHeaders, body: string | Buffer): Promise<void> {
  sink.head(status, { ...headers, 'content-length': String(Buffer.byteLength(body)) })
  if (!sink.write(body)) await sink.drained()
  sink.end()
}
