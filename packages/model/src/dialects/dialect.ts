/** One model API on the wire. Everything that differs between APIs is a field here; `dialects.ts` has a row for each API. */
import type { FaultReport } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import type { AnswerRequest } from '../contract/answer.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Profile } from '../contract/profiles.ts'
import type { AnswerDecoder, PartHandler } from './read-answer.ts'

export type Dialect = {
  /** Under the base URL. */
  readonly path: string
  readonly auth: (apiKey: string | undefined) => Readonly<Record<string, string>>
  /** The body of a streaming request. */
  readonly body: (request: AnswerRequest, profile: Profile) => JsonObject
  /** The same body, asking to continue an unfinished message. Undefined if the API has no way to. */
  readonly withPrefill: ((body: JsonObject, profile: Profile, text: string) => JsonObject) | undefined
  /** What says that an answer is complete: its finish reason, only the event that ends the stream, or a reason and a proper end of the body. */
  readonly proof: 'finish_reason' | 'end_event' | 'body_end'
  /** Thoughts are compared with another attempt's like text, or are separate items that any attempt may add. */
  readonly reasoning: 'text' | 'item'
  readonly decoder: (handler: PartHandler, nextPartId: () => string, options: DecoderOptions) => AnswerDecoder
  /** An answer that came as one document, as the frames it should have been. */
  readonly framesOf: (whole: JsonObject) => readonly SseFrame[]
  /** A frame with no content that every attempt starts with. */
  readonly isOpening: (json: JsonObject | undefined) => boolean
  /** A frame that begins a block, which stays empty if the stream breaks there. */
  readonly isBlockStart: (json: JsonObject | undefined) => boolean
  readonly shape: () => ClientShape
  /** What a frame says, as the decoder reads it. Undefined if it is not JSON. */
  readonly jsonOf: (frame: SseFrame) => JsonObject | undefined
  readonly errorBody: (fault: FaultReport) => JsonObject
  /** The body of an error response, from the frame in which the server reported the error. */
  readonly reportedError: (frame: JsonObject) => JsonObject
  /** The end of a stream that cannot be healed. */
  readonly errorFrames: (body: JsonObject) => string
  /** What follows an error frame, where clients wait for it. */
  readonly afterError: string
}

export type DecoderOptions = {
  /** Parse every frame, for callers that read `json`. Otherwise a frame that only adds text is not parsed. */
  readonly everyJson: boolean
  /** How many choices were asked for: each of them has to finish. */
  readonly choices: number
  readonly profile: Profile
}

/**
 * The new part of each text in a frame, in the order in which the decoder reads them, empty for a text that the client has;
 * undefined if all of it is new.
 */
export type Fresh = readonly string[] | undefined

/**
 * How frames look to the client, also after another attempt healed the answer: one identity, one beginning, blocks numbered
 * on, nothing opened or closed twice. One shape lives as long as the client's stream.
 */
export type ClientShape = {
  /** Another attempt begins. `healing`: the client already holds a part of the answer. */
  begin(healing: boolean): void
  /** A frame whose text the client has, or will have to be told again. False if it holds anything else: that must go out. */
  skip(json: JsonObject | undefined): boolean
  /** A text of an attempt that heals, whether or not the client has it. All of them come in order, each before its frame. */
  replayed?(text: string): void
  /** The frame as the client gets it: itself if nothing has to change, empty if the client has it already. */
  frame(frame: SseFrame, json: JsonObject | undefined, fresh: Fresh): SseFrame | string
  /** What a complete answer ends with, if the server left it out. */
  ending(): string
  /** What keeps a silent connection alive. */
  ping(): string
  /** Clients misread a comment. */
  readonly withoutComments?: boolean
  /** In this attempt every frame goes out as it came. */
  readonly isUnchanged: boolean
  /** A frame that may go out before any content. A ping makes sense to the client only after it. */
  opensStream?(json: JsonObject | undefined): boolean
  /** The last frame of a stream that cannot be healed, if only an error in the stream will do. `reported`: the server's own. */
  errorEnd?(fault: FaultReport, reported: JsonObject | undefined): string
  /** False once something went out that cannot be compared with another attempt. */
  readonly canHeal: boolean
}

/** The event unchanged. Data of one line, the usual case, is not split and joined. */
export function plainFrame(frame: SseFrame): string {
  const data = frame.data.includes('\n') ? frame.data.replaceAll('\n', '\ndata: ') : frame.data
  return `${frameHead(frame)}${data}\n\n`
}

/** What is before the data of an event. */
export const frameHead = ({ event }: SseFrame): string => (event === undefined ? 'data: ' : `event: ${event}\ndata: `)
