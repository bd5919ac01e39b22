/** Frames of an OpenAI chat completion stream, as strings, and answers made of them. */
import { head, lastChunk, type Play } from './plays.ts'

export const frame = (value: unknown): string =>
  `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`

export const CHAT = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'fake-1' }

/** `more` goes into the choice, `top` beside it. */
export const choice = (delta: unknown, more: object = {}, top: object = {}): string =>
  frame({ ...CHAT, choices: [{ index: 0, delta, finish_reason: null, ...more }], ...top })

export const roleWith = (top: object): string => choice({ role: 'assistant', content: '' }, {}, top)
export const role = roleWith({})
export const text = (content: string, top: object = {}): string => choice({ content }, {}, top)
export const thought = (reasoning_content: string): string => choice({ reasoning_content })
export const callStart = (id: string, name: string, args = '', index = 0): string =>
  choice({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: args } }] })
export const callMore = (args: string, index = 0): string =>
  choice({ tool_calls: [{ index, function: { arguments: args } }] })
export const finish = (reason = 'stop', top: object = {}): string => choice({}, { finish_reason: reason }, top)
export const usage = (prompt_tokens = 12, completion_tokens = 7): string =>
  frame({
    ...CHAT,
    choices: [],
    usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
  })
export const errorFrame = (error: object): string => frame({ error })
export const done = frame('[DONE]')

/** The frames of a whole answer with these pieces of text. */
export const answerFrames = (...texts: readonly string[]): string[] => [
  role,
  ...texts.map((piece) => text(piece)),
  finish(),
  done,
]

/** A whole answer with these pieces of text, with usage and proof of completeness. */
export const answer = (...texts: readonly string[]): readonly Play[] => [
  head(),
  role,
  ...texts.map((piece) => text(piece)),
  finish(),
  usage(),
  done,
  lastChunk,
]

/** A whole answer that calls one tool; the arguments arrive a few characters at a time. */
export const toolAnswer = (name: string, args: string, before: readonly Play[] = []): readonly Play[] => [
  head(),
  role,
  ...before,
  callStart('call_1', name),
  ...(args.match(/.{1,5}/gs)?.map((piece) => callMore(piece)) ?? []),
  finish('tool_calls'),
  usage(),
  done,
  lastChunk,
]
