/** Answers of the scripted model, as the tests of whole systems name them. */
import { type ModelServer, startModelServer } from '../test/kit/model-server.ts'
import { callStart, done, errorFrame, finish, role, text, usage } from '../test/kit/openai-frames.ts'
import { cut, json, type Play, stall, stream } from '../test/kit/plays.ts'

/** A model server with one script per model name. A request beyond its script gets the answer "(script over)". */
export function startScriptedModel(port = 0): Promise<ModelServer> {
  const beyond: Play = ({ method }) => (method === 'POST' ? say('(script over)') : json(404, {}))
  return startModelServer([], { port, beyond })
}

export type Call = { readonly tool: string; readonly arguments: Readonly<Record<string, unknown>> }

/** For scripts that do not depend on how often they are asked: the nth answer once the request holds n tool results. */
export function byProgress(answers: readonly Play[]): readonly Play[] {
  const play: Play = ({ messages }) => {
    const results = messages.filter((message) => message.role === 'tool').length
    return answers[results] ?? say('(script over)')
  }
  return Array.from({ length: 200 }, () => play)
}

/** A whole answer of text, in pieces, with usage and proof of completeness. */
export const say = (...pieces: readonly string[]): Play =>
  stream(role, ...texts(pieces), finish(), usage(120, 80), done)

/** A whole answer that calls tools, after some text if given. */
export const ask = (calls: readonly Call[], before = ''): Play =>
  stream(
    role,
    ...(before === '' ? [] : [text(before)]),
    ...calls.map((call, index) => toolFrame(call, JSON.stringify(call.arguments), index)),
    finish('tool_calls'),
    usage(120, 80),
    done,
  )

export const bash = (command: string): Call => ({ tool: 'bash', arguments: { command } })

/** Some text, then a reset connection. */
export const cutAfter = (...pieces: readonly string[]): Play => cut(role, ...texts(pieces))

/** Half of a tool call's arguments, then a proper end of the body without any proof that the answer is complete. */
export function cutInTool(call: Call): Play {
  const args = JSON.stringify(call.arguments)
  return stream(role, toolFrame(call, args.slice(0, Math.ceil(args.length / 2))))
}

/** Text, then a proper end of the body without any proof that the answer is complete. */
export const endUnproven = (...pieces: readonly string[]): Play => stream(role, ...texts(pieces))

/** Some text, then silence on an open connection. */
export const stallAfter = (...pieces: readonly string[]): Play => stall(role, ...texts(pieces))

/** Text whose second half waits for the promise. */
export const sayWhen = (gate: Promise<unknown>, before: string, after: string): Play =>
  stream(role, text(before), () => gate.then(() => undefined), text(after), finish(), done)

export const refuse = (
  status: number,
  error: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, string>> = {},
): Play => json(status, { error }, headers)

/** A 200 whose stream carries an error object after some text. */
export const inBandError = (error: object, ...pieces: readonly string[]): Play =>
  stream(role, ...texts(pieces), errorFrame(error))

export const OVERFLOW = refuse(400, {
  message: "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
  type: 'invalid_request_error',
  param: 'messages',
  code: 'context_length_exceeded',
})

const texts = (pieces: readonly string[]): string[] => pieces.map((piece) => text(piece))

const toolFrame = (call: Call, args: string, index = 0): string =>
  callStart(`call_${index + 1}`, call.tool, args, index)
