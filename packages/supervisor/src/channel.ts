/**
 * The child's private channel to its supervisor: one JSON object per line on fd 3, or IPC messages. It carries raw facts; the
 * supervisor decides what they mean for the status.
 *
 *   {"type":"ready"}                                     it can serve
 *   {"type":"progress","message":"loading 12 of 48"}     it is still starting and makes progress
 *   {"type":"termination-error","name":"…","message":"…","stack":"…"}   why it is about to exit
 *
 * I1  Input is bounded and never throws. Anything else that a program writes there is ignored.
 */
import { cutStart, isObject } from '@breakfall/faults/internal'
import { LineSplitter } from './lines.ts'

export type TerminationError = {
  readonly name: string
  readonly message: string
  readonly stack: string | null
}

export type ChannelMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'progress'; readonly message: string }
  | { readonly type: 'termination-error'; readonly error: TerminationError }

/** The environment variable with the number of the descriptor. */
export const CHANNEL_ENV = 'BREAKFALL_CHANNEL_FD'

export function parseChannelMessage(value: unknown): ChannelMessage | undefined {
  if (!isObject(value)) return undefined
  switch (value['type']) {
    case 'ready':
      return { type: 'ready' }
    case 'progress':
      return { type: 'progress', message: text(value['message'], 500) }
    case 'termination-error': {
      const stack = typeof value['stack'] === 'string' ? text(value['stack'], 8_000) : null
      const name = text(value['name'], 200)
      const error = { name: name === '' ? 'Error' : name, message: text(value['message'], 2_000), stack }
      return { type: 'termination-error', error }
    }
    default:
      return undefined
  }
}

/** Parses the bytes of fd 3. */
export function channelReader(onMessage: (message: ChannelMessage) => void): LineSplitter {
  return new LineSplitter((line) => {
    if (line.droppedBytes > 0 || !line.text.startsWith('{')) return // I1
    const message = parseChannelMessage(parsed(line.text))
    if (message !== undefined) onMessage(message)
  })
}

// ---- details ----

const text = (value: unknown, charsMax: number): string => (typeof value === 'string' ? cutStart(value, charsMax) : '')

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined // I1
  }
}
