/** Sends the frames of one attempt to the client's stream: each as what it is to the client, and the last ones only once the answer is proven. */
import type { IncomingHttpHeaders } from 'node:http'
import type { SseFrame, SseRead } from '@breakfall/wire'
import type { AnswerAttempt, AnswerSink } from '../attempt/answer-attempt.ts'
import type { Dialect } from '../dialects/dialect.ts'
import type { Doubt } from '../dialects/doubts.ts'
import type { FrameKind, TextPart } from '../dialects/read-answer.ts'
import type { Segment } from '../machine/prefix-gate.ts'
import type { ClientStream } from './client-stream.ts'

/** What a frame says, as the decoder hands it on. */
type FrameSaid = {
  kind: FrameKind
  texts: readonly Segment[]
  /** Of an attempt that heals: the new part of each text. */
  readonly fresh: string[]
  /** One of them is not all of its text. */
  isPartial: boolean
}

const NO_TEXTS: readonly Segment[] = []
const nothingSaid = (): FrameSaid => ({ kind: 'lifecycle', texts: NO_TEXTS, fresh: [], isPartial: false })

export class FrameSink implements AnswerSink {
  readonly takesFiltered = true
  readonly #client: ClientStream
  readonly #dialect: Dialect
  /** The client holds a part of the answer from an earlier attempt. */
  readonly #isHealing: boolean
  #said = nothingSaid()

  constructor(client: ClientStream, dialect: Dialect) {
    this.#client = client
    this.#dialect = dialect
    this.#isHealing = client.contentSent
  }

  get isCommitted(): boolean {
    return this.#client.contentSent
  }

  head(_status: number, headers: IncomingHttpHeaders): void {
    this.#client.upstreamHead(headers)
  }

  next(): void {
    this.#said = nothingSaid()
  }

  text(part: TextPart, fresh: string, text: string): void {
    if (part.kind === 'reasoning' && this.#dialect.reasoning === 'item') return // goes out with its item
    const said = this.#said
    if (this.#isHealing) {
      said.fresh.push(fresh)
      this.#client.shape.replayed?.(text)
    }
    said.isPartial ||= fresh !== text
    if (fresh === '') return
    if (said.kind === 'lifecycle') said.kind = 'content'
    const segment = { kind: part.isRefusal ? 'refusal' : part.kind, text: fresh } as const
    // A frame may be held back with its texts, so each frame needs its own list.
    said.texts = said.texts === NO_TEXTS ? [segment] : [...said.texts, segment]
  }

  tool(): void {
    this.#said.kind = 'tool'
  }

  frame(frame: SseFrame, attempt: AnswerAttempt): void {
    if (attempt.answer.choices > 1) {
      if (this.#isHealing) throw attempt.divergence()
      this.#client.severalChoices()
    }
    this.#pass(frame, attempt)
  }

  /** Frames that differ only in their text go through as one, unless they have to be compared with what the client holds. */
  frames(read: SseRead, from: number, attempt: AnswerAttempt): number {
    const { ended, finish } = attempt.answer
    if (this.#isHealing || !attempt.plan.gate.isOpen || ended || finish !== null) return from
    this.next()
    const run = attempt.decoder.run?.(read.text, from)
    if (run === undefined) return from
    const source = { read, from, to: run.to, events: run.events }
    this.#pass({ event: nameAt(read.text, from), data: '', source }, attempt)
    return run.to
  }

  comment(text: string): void {
    this.#client.comment(text)
  }

  flush(): Promise<void> | undefined {
    return this.#client.flush() && !this.#client.hasBacklog ? undefined : this.#caughtUp()
  }

  doubt(doubt: Doubt): void {
    this.#client.doubt(doubt)
  }

  release(): void {
    this.#client.release()
  }

  // ---- details ----

  #pass(frame: SseFrame, attempt: AnswerAttempt): void {
    const said = this.#said
    const client = this.#client
    const { json, frameKind } = attempt.decoder
    const { gate } = attempt.plan
    const { ended, finish } = attempt.answer
    const isTail = finish !== null || ended || attempt.decoder.isTail === true
    let kind = frameKind ?? said.kind
    if (isTail || kind === 'tool') attempt.mustBeOpen()
    // A separate item. It waits until the beginning of the text is certain.
    if (kind === 'item' || kind === 'item-end')
      return client.take(gate.isOpen ? kind : 'opening', frame, json, undefined, NO_TEXTS)
    const saysNothingNew = said.isPartial && said.texts.length === 0 && !isTail
    // Each attempt starts with a frame that has only the role.
    const comesAgain = this.#isHealing && kind === 'lifecycle' && !isTail && this.#dialect.isOpening(json)
    if ((!gate.isOpen || saysNothingNew || comesAgain) && client.shape.skip(json)) return
    if (!gate.isOpen) kind = 'opening' // it waits until the beginning of the text is certain
    if (ended || (isTail && attempt.isProvableByReason)) attempt.prove()
    if (kind === 'lifecycle' && this.#dialect.isBlockStart(json)) kind = 'opening'
    const fresh = said.isPartial ? said.fresh : undefined
    client.take(isTail && !attempt.isProven ? 'tail' : kind, frame, json, fresh, said.texts)
  }

  /** The client has taken what there is for it. Other streams have their turn in between. */
  async #caughtUp(): Promise<void> {
    const client = this.#client
    for (await client.drained(); client.hasBacklog; await client.drained()) {
      client.sendBacklog()
      client.flush()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}

/** The name of the event that begins there. */
const nameAt = (text: string, from: number): string | undefined =>
  text.startsWith('event: ', from) ? text.slice(from + 'event: '.length, text.indexOf('\n', from)) : undefined
