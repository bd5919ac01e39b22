/**
 * Frames that wait, in order. Their events are kept as the bytes that they are on the wire, one after the other, and read again
 * when they go out: parsed, a small event takes a hundred times its size.
 *
 * I1  What is held costs about its bytes, whatever the size of an event, and `bytes` counts all of it.
 */
import { SseDecoder, type SseFrame } from '@breakfall/wire'
import { type Fresh, plainFrame } from '../dialects/dialect.ts'
import type { FrameKind } from '../dialects/read-answer.ts'
import { FlatText } from '../lib/flat-text.ts'
import type { JsonObject } from '../lib/json.ts'
import { parsedBytes } from '../lib/json-fields.ts'
import type { Segment, SegmentKind } from '../machine/known-text.ts'

/** Frames of one kind, one after the other. */
export type HeldRun = {
  readonly kind: FrameKind
  /** Of a frame that may not be parsed again, or is several events that were taken as one. */
  readonly json: JsonObject | undefined
  readonly fresh: Fresh
  readonly texts: readonly Segment[]
  /** On the wire. */
  readonly length: number
  frames(): readonly SseFrame[]
  /** As they came. */
  piece(): string | Buffer
}

/** Objects of an entry. */
const ENTRY_BYTES = 300
/** A longer run is another one: it goes out in one go. Longer ones are also fewer, and leave V8's heap. */
const RUN_CHARS = 16_384

export class HeldFrames {
  #runs: Run[] = []
  #length = 0
  #bytes = 0

  get isEmpty(): boolean {
    return this.#runs.length === 0
  }

  /** Of the held part of the answer, on the wire. */
  get length(): number {
    return this.#length
  }

  /** What it costs to hold it. */
  get bytes(): number {
    return this.#bytes
  }

  get first(): HeldRun | undefined {
    return this.#runs[0]
  }

  get last(): HeldRun | undefined {
    return this.#runs.at(-1)
  }

  /** `json` only if it cannot be had from the frame. */
  add(kind: FrameKind, frame: SseFrame, json: JsonObject | undefined, fresh: Fresh, texts: readonly Segment[]): void {
    let run = this.#runs.at(-1)
    if (run === undefined || run.kind !== kind || run.isClosed || json !== undefined || fresh !== undefined) {
      run?.close()
      run = new Run(kind, json, fresh, frame.source?.events)
      this.#runs.push(run)
      this.#bytes += ENTRY_BYTES
    }
    const { length } = run
    this.#bytes += run.add(frame, texts)
    this.#length += run.length - length
  }

  /** Moves them out of here. */
  takeAll(): readonly HeldRun[] {
    const runs = this.#runs
    this.#runs = []
    this.#length = this.#bytes = 0
    return runs
  }

  takeFirst(): void {
    const run = this.#runs.shift()
    this.#length -= run?.length ?? 0
    this.#bytes -= run === undefined ? 0 : run.bytes + ENTRY_BYTES
  }

  /** Puts back what was taken and still has to wait. */
  keep(run: HeldRun): void {
    if (!(run instanceof Run)) return
    this.#runs.push(run)
    this.#length += run.length
    this.#bytes += run.bytes + ENTRY_BYTES
  }
}

// ---- details ----

class Run implements HeldRun {
  readonly kind: FrameKind
  readonly json: JsonObject | undefined
  readonly fresh: Fresh
  bytes = 0
  length = 0
  readonly #events: number
  readonly #isSingle: boolean
  #open = ''
  #piece: Buffer | undefined
  #texts: { readonly kind: SegmentKind; readonly text: FlatText }[] = []

  constructor(kind: FrameKind, json: JsonObject | undefined, fresh: Fresh, events = 1) {
    this.kind = kind
    this.json = json
    this.fresh = fresh
    this.#isSingle = json !== undefined || fresh !== undefined
    this.#events = events
  }

  /** Nothing more fits into it. */
  get isClosed(): boolean {
    return this.#isSingle || this.#piece !== undefined
  }

  /** Returns what it costs. */
  add(frame: SseFrame, texts: readonly Segment[]): number {
    const { source } = frame
    const before = this.bytes
    const text = source === undefined ? plainFrame(frame) : source.read.text.slice(source.from, source.to)
    this.bytes += text.length
    if (this.json !== undefined && this.#events === 1) this.bytes += parsedBytes(frame.data) // several are one small template
    this.length += text.length
    this.#open += text
    for (const segment of texts) {
      this.bytes += segment.text.length
      const last = this.#texts.at(-1)
      if (last?.kind === segment.kind) last.text.add(segment.text)
      else this.#texts.push({ kind: segment.kind, text: new FlatText(segment.text) })
    }
    if (this.#open.length >= RUN_CHARS) this.close()
    return this.bytes - before
  }

  get texts(): readonly Segment[] {
    return this.#texts.map(({ kind, text }) => ({ kind, text: text.toString() }))
  }

  frames(): readonly SseFrame[] {
    const frames: SseFrame[] = []
    const decoder = new SseDecoder({ onEvent: (frame) => frames.push(frame) })
    const text = this.piece().toString()
    decoder.push(text)
    const [first] = frames
    // Several events that were taken as one go out as one.
    if (!this.#isSingle || first === undefined || this.#events === 1) return frames
    return [{ ...first, source: { read: { text, bytes: undefined }, from: 0, to: text.length, events: this.#events } }]
  }

  piece(): string | Buffer {
    return this.#piece ?? this.#open
  }

  /** What stays of it are its bytes: pieces of a text keep all of what was read alive. */
  close(): void {
    if (this.#piece !== undefined) return
    const piece = Buffer.from(this.#open)
    this.bytes += piece.length - this.length
    this.length = piece.length
    this.#piece = piece
    this.#open = ''
    for (const { text } of this.#texts) text.close()
  }
}
