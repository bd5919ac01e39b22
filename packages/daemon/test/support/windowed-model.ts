/** A model with a small window: it works step by step, refuses longer requests as real servers do, and writes summaries. */
import { startModelServer } from '../../../../test/kit/model-server.ts'
import { callMore, callStart, done, finish, role, text, usage } from '../../../../test/kit/openai-frames.ts'
import { cut, json, type Play, stream } from '../../../../test/kit/plays.ts'

export const PROMPT = 'do all the steps'
const SUMMARY = 'All steps so far went well.'

export type WindowedModel = {
  readonly baseUrl: string
  readonly seen: { overflows: number; summaries: number; answers: number; bytesMax: number; withoutPrompt: number }
  close(): Promise<void>
}

export type WindowedOptions = {
  readonly steps: number
  readonly windowBytes: number
  /** What a step calls. */
  readonly call: (step: number) => { readonly tool: string; readonly arguments: Record<string, unknown> }
  /** Breaks off the first attempts at each summary. */
  readonly cutSummaries?: number
  /** Says how long the window is when it refuses. */
  readonly isTalkative?: boolean
}

export async function startWindowedModel(options: WindowedOptions): Promise<WindowedModel> {
  const { steps, windowBytes, call, cutSummaries = 0, isTalkative = true } = options
  const seen = { overflows: 0, summaries: 0, answers: 0, bytesMax: 0, withoutPrompt: 0 }
  let cuts = cutSummaries
  const server = await startModelServer((exchange): Play => {
    const { bytes, body } = exchange
    server.requests.length = 0 // hundreds of long requests
    if (bytes.length > windowBytes) {
      seen.overflows += 1
      return refusal(bytes.length, windowBytes, isTalkative)
    }
    if (body.tools === undefined) {
      seen.summaries += 1
      if (cuts-- > 0) return cut(role, text('All steps'))
      cuts = cutSummaries
      return stream(role, text(SUMMARY), finish('stop'), usage(Math.ceil(bytes.length / 4), 9), done)
    }
    seen.answers += 1
    seen.bytesMax = Math.max(seen.bytesMax, bytes.length)
    if (!exchange.text.includes(PROMPT)) seen.withoutPrompt += 1
    const last = exchange.messages.at(-1)
    const step = last?.role === 'tool' ? Number(String(last['tool_call_id']).slice('call_'.length)) : 0
    const counted = usage(Math.ceil(bytes.length / 4), 5)
    if (step >= steps) return stream(role, text('all done'), finish('stop'), counted, done)
    const { tool, arguments: args } = call(step + 1)
    const called = [callStart(`call_${step + 1}`, tool), callMore(JSON.stringify(args))]
    return stream(role, called, finish('tool_calls'), counted, done)
  })
  return { baseUrl: server.url, seen, close: () => server.close() }
}

function refusal(bytes: number, windowBytes: number, isTalkative: boolean): Play {
  const [asked, limit] = [Math.ceil(bytes / 4), Math.floor(windowBytes / 4)]
  const message = isTalkative
    ? `This model's maximum context length is ${limit} tokens. However, your messages resulted in ${asked} tokens.`
    : 'Please reduce the length of the messages.'
  return json(400, { error: { message, type: 'invalid_request_error', code: 'context_length_exceeded' } })
}
