/**
 * The child's private line to its supervisor: one JSON object a line on fd 3, or IPC messages. Raw facts only; what they
 * mean for the status is the supervisor's to decide.
 *
 *   {"type":"ready"}                                     it can serve
 *   {"type":"progress","message":"loading 12 of 48"}     it still starts, and gets on
 *   {"type":"termination-error","name":"…","message":"…","stack":"…"}   its last words
 *
 * I1  Whatever comes is bounded and never throws: a program that writes something else there is ignored.
 */
import { cutStart } from '@breakfall/faults'
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

/** Where a child finds the number of the descriptor. */
export const CHANNEL_ENV = 'BREAKFALL_CHANNEL_FD'

export function parseChannelMessage(value: unknown): ChannelMessage | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const record = value as Record<string, unknown>
  switch (record['type']) {
    case 'ready':
      return { type: 'ready' }
    case 'progress':
      return { type: 'progress', message: text(record['message'], 500) }
    case 'termination-error': {
      const stack = typeof record['stack'] === 'string' ? text(record['stack'], 8_000) : null
      const name = text(record['name'], 200)
      const error = { name: name === '' ? 'Error' : name, message: text(record['message'], 2_000), stack }
      return { type: 'termination-error', error }
    }
    default:
      return undefined
  }
}

/** Reads fd 3. */
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
