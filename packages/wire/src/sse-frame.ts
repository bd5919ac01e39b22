/** One server-sent event. */
export type SseFrame = {
  readonly event?: string | undefined
  readonly id?: string | undefined
  readonly data: string
  /** Where the decoder read it, if it is there in the very form in which it would be encoded. */
  readonly source?: SseSource | undefined
}

/** A piece of a text, and how many events it is. */
export type SseSource = {
  readonly text: string
  readonly from: number
  readonly to: number
  readonly events: number
}
