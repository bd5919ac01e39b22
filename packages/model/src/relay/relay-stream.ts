/**
 * Relays one streamed answer, over as many attempts as it takes.
 *
 * I1  Before content: any transient failure is retried, and the client sees nothing of it.
 * I2  After content: continued by prefill, or asked for again and forwarded only if it starts with exactly what went out; else
 *     the stream ends as the upstream's did: with its own error if it sent one, else with a closed connection and the reason in
 *     a comment before it. Never with an end that looks proper.
 */
import type { FaultReport } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import type { AnswerAttempt, AnswerSink } from '../attempt/answer-attempt.ts'
import { takesPrefill } from '../attempt/target.ts'
import { type Dialect, plainFrame } from '../dialects/dialect.ts'
import { DIALECTS } from '../dialects/dialects.ts'
import { objectOr, parsedOr } from '../lib/json.ts'
import type { Rung } from '../machine/next-rung.ts'
import { ClientStream } from './client-stream.ts'
import { FrameSink } from './frame-sink.ts'
import { asBreak, errorAnswer, errorFrames, inBandRefusal, isFinal, repairHeaders } from './relay-error.ts'
import { profileOf } from './relay-request.ts'
import type { RelayClient, Reported } from './relay-run.ts'
import type { RepairNote } from '../repair/request-repair.ts'
import type { RelayRequest, RelaySink, RelayTarget, ResolvedRelayOptions } from './relay.ts'

export class StreamRelay implements RelayClient {
  readonly sent: ClientStream
  readonly #request: RelayRequest
  readonly #dialect: Dialect
  readonly #sink: RelaySink
  readonly #options: ResolvedRelayOptions

  constructor(request: RelayRequest, targets: readonly RelayTarget[], sink: RelaySink, options: ResolvedRelayOptions) {
    const { api } = request
    const canContinue = targets.some((target) => takesPrefill({ api, profile: profileOf(target) }))
    this.sent = new ClientStream(request, sink, options, canContinue)
    this.#request = request
    this.#dialect = DIALECTS[request.api]
    this.#sink = sink
    this.#options = options
  }

  sink(): AnswerSink {
    return new FrameSink(this.sent, this.#dialect)
  }

  waiting({ action, attempt, max, delayMs, fault }: Extract<Rung, { delayMs: number }>): void {
    this.sent.comment(`breakfall ${action} ${attempt + 1}/${max} ${fault.category} in ${delayMs} ms`)
    this.sent.flush()
  }

  repaired(notes: readonly RepairNote[]): void {
    this.sent.repairs = repairHeaders(notes)
    const last = notes.at(-1)
    if (last === undefined) return
    this.sent.comment(`breakfall repaired ${last.cause} ${last.place}`)
    this.sent.flush()
  }

  complete({ answer, plan }: AnswerAttempt): number {
    const asked = objectOr(this.#request.json['stream_options'])['include_usage'] === true
    if (!asked || answer.ended || answer.usage.output !== undefined) this.sent.finish()
    else {
      this.#options.onEvent({ type: 'usage-lost', attempt: plan.trace.attempt })
      // The server did not say that this is all, so neither do we.
      this.sent.finishWith(': breakfall the answer is complete, but the stream broke before its token counts\n\n')
    }
    return 200
  }

  end(fault: FaultReport, { refusal, errorFrame, isUnrepairable }: Reported): number {
    if (this.sent.headSent) {
      this.#endStream(fault, errorFrame)
      return 200
    }
    this.sent.stop()
    const inBand = errorFrame && inBandRefusal(fault, this.#reported(errorFrame))
    const answer = errorAnswer(this.#request.api, fault, refusal ?? inBand)
    this.#sink.head(answer.status, { ...answer.headers, ...repairHeaders([], isUnrepairable) })
    this.#sink.write(answer.body)
    this.#sink.end()
    return answer.status
  }

  // ---- details ----

  /** An error in the stream where the API's clients need one; else the upstream's own error, or a closed connection. */
  #endStream(fault: FaultReport, frame: SseFrame | undefined): void {
    const { api } = this.#request
    const { shape, contentSent } = this.sent
    const told = contentSent ? asBreak(fault) : fault
    if (shape.errorEnd !== undefined) {
      const reported = frame !== undefined && isFinal(fault) ? objectOr(parsedOr(frame.data)) : undefined
      this.sent.finishWith(shape.errorEnd(told, reported))
    } else if (frame !== undefined) this.sent.finishWith(plainFrame(frame) + this.#dialect.afterError)
    else if (contentSent) this.sent.breakOff(fault, errorFrames(api, told))
    else this.sent.finishWith(errorFrames(api, told))
  }

  /** The body of the response that the server should have refused with. */
  #reported({ data }: SseFrame): string {
    return JSON.stringify(this.#dialect.reportedError(objectOr(parsedOr(data))))
  }
}
