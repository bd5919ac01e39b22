/** One server-sent event. */
export type SseFrame = {
  readonly event?: string | undefined
  readonly id?: string | undefined
  readonly data: string
  /** Where the decoder read it, if it is there in the very form in which it would be encoded. */
  readonly source?: SseSource | undefined
}

/** What was read at once. */
export type SseRead = {
  readonly text: string
  /** What the text was decoded from. A character may start in an earlier read, or end in a later one. */
  readonly bytes: Uint8Array | undefined
}

/** A piece of what was read, and how many events it is. */
export type SseSource = {
  readonly read: SseRead
  readonly from: number
  readonly to: number
  readonly events: number
}
