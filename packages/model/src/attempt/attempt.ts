/** What one attempt takes and gives: the request, the reader of its answer, and how it ended. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Fault } from '@breakfall/faults'
import type { SseFrame, SseRead } from '@breakfall/wire'
import type { AttemptPhase } from '../contract/answer.ts'
import type { MemoryShare } from '@breakfall/wire/node'

export type AttemptRequest = {
  /** A POST, unless it reads on where another request stopped. */
  readonly method?: 'GET' | 'POST' | undefined
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** In one piece, or in chunks that are sent one after the other. */
  readonly body: string | Buffer | readonly Buffer[]
  /** Where the answer can be read again after its connection broke. */
  readonly replay?: Replay | undefined
  /** Absent for requests that are no attempt of their own, such as one that reads on. */
  readonly trace?: AttemptTrace | undefined
}

/** Where an attempt belongs. */
export type AttemptTrace = {
  /** The `traceparent` of its call. */
  readonly traceparent: string | undefined
  /** From 1. */
  readonly attempt: number
  /** The wait before it. */
  readonly backoffMs?: number | undefined
}

/** Where the bytes of one attempt's answer can be read again. */
export type Replay = {
  readonly id: string
  readonly url: string
  /** Whose answer it is. */
  readonly baseUrl: string
  readonly headers: Readonly<Record<string, string>>
}

/** `finished`: the proof is there, only usage and the end marker may follow. `ended`: nothing follows. */
export type ReadState = 'more' | 'finished' | 'ended'

/** Reads the answer. May throw a Fault, which ends the attempt. */
export type AttemptReader = {
  head?(status: number, headers: IncomingHttpHeaders): void
  frame(frame: SseFrame): ReadState
  /** May take several frames at once, from `from` on. Returns the end of the last one. */
  frames?(read: SseRead, from: number): number
  comment?(text: string): void
  /** Called for the head of the response and for each read of its body. */
  readonly onBytes?: (() => void) | undefined
  /** All frames of one read were handed over. */
  flush?(): void
  /** What a whole body takes while it arrives. Absent: it is not counted. */
  readonly memory?: MemoryShare
  /** The whole body of an answer that is not an event stream. */
  whole(body: Buffer, contentType: string): void
  /** Grows with everything the model says. */
  readonly progress: number
  /** No stream was asked for: anything that does not call itself one is read whole. */
  readonly prefersWhole?: boolean
}

export type Refusal = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly body: Buffer }

export type AttemptEnd = {
  readonly phase: AttemptPhase
  readonly bytes: number
  readonly durationMs: number
  /** What broke the attempt, if anything did. */
  readonly fault: Fault | undefined
  readonly refusal: Refusal | undefined
  /** How often it re-attached to the answer. */
  readonly reattached?: number | undefined
}

export type Attempt = {
  readonly end: Promise<AttemptEnd>
  /** Holds the answer back, for a reader that is behind. */
  pause(): void
  resume(): void
}

export const ATTEMPT_LIMITS = {
  afterFinishMs: 1_000, // for usage and the end marker; some servers keep the socket open and send neither
  drainMs: 500, // for the rest of a finished body; then its connection can be reused
  eventLinesMax: 65_536, // few servers send more than one; joining millions takes a gigabyte
  refusalBytesMax: 1024 * 1024,
  refusalMs: 10_000, // if the body of a refusal takes longer, the status alone has to do
  reattachesMax: 20, // each has to bring something new
  wholeBytesMax: 64 * 1024 * 1024,
} as const
