/** Events of an Anthropic messages stream, as strings, and messages made of them. */
import { head, lastChunk, type Play } from './plays.ts'

export const event = (type: string, more: object = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`

export const messageStartWith = (id: string, model = 'claude-fake'): string =>
  event('message_start', {
    message: {
      id,
      type: 'message',
      role: 'assistant',
      model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 12, output_tokens: 1 },
    },
  })
export const messageStart = messageStartWith('msg_1')
export const ping = event('ping')
export const blockStart = (index: number, content_block: object): string =>
  event('content_block_start', { index, content_block })
export const blockDelta = (index: number, delta: object): string => event('content_block_delta', { index, delta })
export const blockText = (index: number, text: string): string => blockDelta(index, { type: 'text_delta', text })
export const blockThought = (index: number, thinking: string): string =>
  blockDelta(index, { type: 'thinking_delta', thinking })
export const blockJson = (index: number, partial_json: string): string =>
  blockDelta(index, { type: 'input_json_delta', partial_json })
export const blockStop = (index: number): string => event('content_block_stop', { index })
export const messageDelta = (stop_reason = 'end_turn'): string =>
  event('message_delta', { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 7 } })
export const messageStop = event('message_stop')
export const errorEvent = (type: string, message: string): string => event('error', { error: { type, message } })

/** The start of a text block. */
export const textBlock = (index: number): string => blockStart(index, { type: 'text', text: '' })

/** A whole text block. */
export const textFrames = (index: number, ...texts: readonly string[]): string[] => [
  textBlock(index),
  ...texts.map((text) => blockText(index, text)),
  blockStop(index),
]

/** A whole tool call. */
export const toolFrames = (index: number, id: string, name: string, ...args: readonly string[]): string[] => [
  blockStart(index, { type: 'tool_use', id, name, input: {} }),
  ...args.map((piece) => blockJson(index, piece)),
  blockStop(index),
]

/** The frames of a whole message made of these blocks. */
export const messageFrames = (...blocks: readonly (readonly string[])[]): string[] => [
  messageStart,
  ping,
  ...blocks.flat(),
  messageDelta(),
  messageStop,
]

/** A whole message with these pieces of text. */
export const message = (...texts: readonly string[]): readonly Play[] => [
  head(),
  messageStart,
  ...textFrames(0, ...texts),
  messageDelta(),
  messageStop,
  lastChunk,
]

/** A whole message that calls one tool; the arguments arrive a few characters at a time. */
export function toolMessage(name: string, args: string, before: readonly Play[] = []): readonly Play[] {
  const index = before.length === 0 ? 0 : 1
  const pieces = args.match(/.{1,5}/gs) ?? []
  return [
    head(),
    messageStart,
    ...before,
    ...toolFrames(index, 'toolu_1', name, ...pieces),
    messageDelta('tool_use'),
    messageStop,
    lastChunk,
  ]
}
