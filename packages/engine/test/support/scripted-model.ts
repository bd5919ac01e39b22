/** Answers for the kit's model server as the tests of the daemon describe them: by text, tool calls and what goes wrong. */
import type { Exchange, Message } from '../../../../test/kit/exchange.ts'
import { startModelServer } from '../../../../test/kit/model-server.ts'
import { callMore, callStart, done, finish, role, text, usage } from '../../../../test/kit/openai-frames.ts'
import { cut, json, pause, type Play, stream } from '../../../../test/kit/plays.ts'

export type ScriptedAnswer = {
  readonly text?: string
  readonly calls?: readonly {
    readonly id?: string
    readonly tool: string
    readonly arguments: Record<string, unknown>
  }[]
  /** Pause before each piece of text. */
  readonly pauseMs?: number
  /** Characters per piece. */
  readonly pieceChars?: number
  /** Resets the connection after that many pieces. */
  readonly cutAfter?: number
  /** Refuses instead. */
  readonly status?: number
  readonly headers?: Record<string, string>
  readonly body?: unknown
  /** Holds the answer back until it resolves. */
  readonly until?: Promise<unknown>
}

export type Asked = {
  readonly messages: readonly Message[]
  readonly model: string
  readonly authorization: string | undefined
  readonly tools?: unknown
}

/** Called with the conversation and the number of the request; the same conversation should get the same answer. */
export type Script = (asked: Asked, request: number) => ScriptedAnswer

/** Answers by the number of answers that the current turn already has: after a restart the script continues at the same point. */
export function inOrder(...answers: readonly ScriptedAnswer[]): Script {
  return ({ messages }) => {
    const from = messages.findLastIndex((message) => message.role === 'user')
    const given = messages.slice(from).filter((message) => message.role === 'assistant').length
    return answers[Math.min(given, answers.length - 1)] ?? { text: 'nothing' }
  }
}

export type ScriptedModel = {
  readonly baseUrl: string
  readonly port: number
  readonly asked: Asked[]
  close(): Promise<void>
}

export async function startScriptedModel(script: Script, port = 0): Promise<ScriptedModel> {
  const asked: Asked[] = []
  const server = await startModelServer(
    (exchange) => {
      if (exchange.path === '/health') return json(200, {})
      const request = askedIn(exchange)
      asked.push(request)
      return playOf(script(request, asked.length), asked.length)
    },
    { port },
  )
  return { baseUrl: server.url, port: server.port, asked, close: () => server.close() }
}

function askedIn({ body, messages, headers }: Exchange): Asked {
  return { ...body, messages, model: body.model, authorization: headers['authorization'] }
}

function playOf(given: ScriptedAnswer, request: number): Play {
  const wait: Play = () => given.until?.then(() => undefined)
  if (given.status !== undefined)
    return [wait, json(given.status, given.body ?? { error: { message: 'refused' } }, given.headers)]
  const pieces = piecesOf(given.text ?? '', given.pieceChars ?? 8).map((piece): Play => [
    given.pauseMs === undefined ? [] : pause(given.pauseMs),
    text(piece),
  ])
  if (given.cutAfter !== undefined) return [wait, cut(role, pieces.slice(0, given.cutAfter))]
  const calls = (given.calls ?? []).map(({ id, tool, arguments: args }, index) => [
    callStart(id ?? `call_${request}_${index}`, tool, '', index),
    callMore(JSON.stringify(args), index),
  ])
  return [wait, stream(role, pieces, calls, finish(calls.length > 0 ? 'tool_calls' : 'stop'), usage(10, 5), done)]
}

function piecesOf(whole: string, chars: number): string[] {
  return Array.from({ length: Math.ceil(whole.length / chars) }, (_, n) => whole.slice(n * chars, (n + 1) * chars))
}
