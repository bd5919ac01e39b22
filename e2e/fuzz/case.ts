/** One run as plain data: what the client asks, and what the upstream sends each time it is asked. */
import type { Hold, ProfileName, RelayApiName } from '@breakfall/model'

export type Json = { readonly [key: string]: unknown }

export type Frame = { readonly event?: string; readonly data: string }

/** A field whose numbers are others once they were parsed and written again. */
export const EXACT = '"x_exact":{"one":1.0,"long":12345678901234567890}'

/** Options of the gateway. Cases with the same options share one. */
export type Setting = {
  readonly hold: Hold
  readonly profile?: ProfileName
  /** The upstream compresses its answers. */
  readonly isCompressed?: boolean
  /** Limits that change what is held, and for how long. */
  readonly limit?: 'hold 0 ms' | 'hold 6000 bytes' | 'ping 2 ms' | 'silence 60 ms'
}

export type Case = {
  readonly api: RelayApiName
  readonly setting: Setting
  readonly path: string
  readonly body: Json
  /** The last one is repeated. */
  readonly attempts: readonly Script[]
}

/** What the upstream sends when it is asked. */
export type Script = {
  readonly frames: readonly Frame[]
  /** The same answer as one JSON document, which is sent instead. */
  readonly whole?: Json
  /** A refusal, sent instead. */
  readonly status?: number
  readonly style: Style
  readonly cut?: Cut
  /** What it does if it is asked to continue a text. Default: continues it if it is the beginning of its own. */
  readonly onPrefill?: 'refuse' | 'start over' | 'start like it'
  /** A background response: how often the rest is cut again, and whether its events are gone. */
  readonly background?: Background
}

/** How a server lets a background response be read on. */
export type Background = {
  /** Of each connection that reads on, the number of the event at which it breaks. After these, one does not. */
  readonly cuts: readonly number[]
  /** Its events are not streamed any more: only the answer as one document is there. */
  readonly isTooOld: boolean
  /** So often the document is not finished yet. */
  readonly polls: number
}

/** `at` counts bytes of the body before compression; `error` is sent instead of the frame there. */
export type Cut =
  | { readonly how: 'reset' | 'fin' | 'clean' | 'stall'; readonly at: number }
  | { readonly how: 'error'; readonly at: number; readonly frame: Frame }

/** Lines of JSON, or AWS's binary frames. */
export type Shape = 'lines' | 'aws'

/** How the same frames look on the wire. */
export type Style = {
  /** Default: server-sent events. All but `writes`, `framing` and `encoding` is about those. */
  readonly shape?: Shape
  readonly lineEnd: '\n' | '\r\n' | '\r' | 'mixed'
  readonly space: ' ' | ''
  readonly json: 'compact' | 'escaped' | 'lines'
  /** Comments, event ids and reconnection times between the frames. */
  readonly extras: readonly { readonly before: number; readonly line: string }[]
  readonly bom: boolean
  readonly framing: 'chunked' | 'length' | 'close'
  readonly encoding: '' | 'gzip' | 'deflate' | 'br'
  /** Bytes of each write; what is left goes out as one. Empty: all at once. `frames`: each frame on its own. */
  readonly writes: readonly number[] | 'frames'
}

export const PLAIN: Style = {
  lineEnd: '\n',
  space: ' ',
  json: 'compact',
  extras: [],
  bom: false,
  framing: 'chunked',
  encoding: '',
  writes: [],
}
