/** Relays one answer that is asked for in one piece. It goes out once it is complete. */
import type { IncomingHttpHeaders } from 'node:http'
import type { FaultReport } from '@breakfall/faults'
import type { AnswerSink } from '../attempt/answer-attempt.ts'
import { DOUBT, type Doubt, doubtText } from '../dialects/doubts.ts'
import { isInBandError } from '../dialects/in-band.ts'
import type { JsonObject } from '../lib/json.ts'
import { PrefixGate } from '../machine/prefix-gate.ts'
import { errorAnswer, inBandRefusal, repairHeaders } from './relay-error.ts'
import { clientHeaders } from './relay-request.ts'
import type { RelayClient, Reported } from './relay-run.ts'
import type { RepairNote } from '../repair/request-repair.ts'
import type { RelayRequest, RelaySink, ReturnedHeaders } from './relay.ts'

export class WholeRelay implements RelayClient {
  readonly sent = {
    contentSent: false,
    canHeal: true,
    begin: () => undefined,
    failed: () => undefined,
    stop: () => undefined,
    replayGate: () => new PrefixGate([]),
    takeSent: () => [],
  }
  readonly #request: RelayRequest
  readonly #sink: RelaySink
  #answer = new WholeSink()
  #repairs: ReturnedHeaders = {}

  constructor(request: RelayRequest, sink: RelaySink) {
    this.#request = request
    this.#sink = sink
  }

  sink(): AnswerSink {
    this.#answer = new WholeSink()
    return this.#answer
  }

  repaired(notes: readonly RepairNote[]): void {
    this.#repairs = repairHeaders(notes)
  }

  waiting(): void {
    return // nothing went out yet
  }

  async complete(): Promise<number> {
    const { status, headers, marks, body } = this.#answer
    await this.#send(status, { ...clientHeaders(headers), ...this.#repairs, ...marks }, body)
    this.sent.contentSent = true
    return status
  }

  async end(fault: FaultReport, { refusal, isUnrepairable }: Reported): Promise<number> {
    const { isError, body } = this.#answer
    const inBand = isError ? inBandRefusal(fault, body) : undefined
    const answer = errorAnswer(this.#request.api, fault, refusal ?? inBand)
    await this.#send(answer.status, { ...answer.headers, ...repairHeaders([], isUnrepairable) }, answer.body)
    return answer.status
  }

  /** Ends when the client has taken it: until then, it is held. */
  async #send(status: number, headers: ReturnedHeaders, body: string | Buffer): Promise<void> {
    this.#sink.head(status, { ...headers, 'content-length': String(Buffer.byteLength(body)) })
    if (!this.#sink.write(body)) await this.#sink.drained()
    this.#sink.end()
  }
}

// ---- details ----

class WholeSink implements AnswerSink {
  readonly prefersWhole = true
  readonly takesFiltered = true
  status = 0
  headers: IncomingHttpHeaders = {}
  /** Headers of ours. */
  marks: Readonly<Record<string, string>> = {}
  body: Buffer = Buffer.alloc(0)
  /** It came with status 200, and says that it failed. */
  isError = false

  head(status: number, headers: IncomingHttpHeaders): void {
    this.status = status
    this.headers = headers
  }

  doubt(doubt: Doubt): void {
    this.marks = { [DOUBT]: doubtText(doubt) }
  }

  text(): void {
    return // the body has it
  }

  tool(): void {
    return // the body has it
  }

  whole(body: Buffer, json: JsonObject): void {
    this.body = body
    this.isError = isInBandError(json)
  }
}
