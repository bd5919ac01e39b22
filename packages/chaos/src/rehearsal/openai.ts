/** The rehearsal model's answers as OpenAI chat completions, complete or streamed. Pure. */
import { encodeSse } from '@breakfall/wire'
import { chunksOf } from './chunks.ts'
import type { Answer } from './script.ts'

const CREATED = 1_700_000_000 // fixed, because the same conversation gets the same answer, byte for byte

export function openAiBody(answer: Answer, model: string): string {
  return JSON.stringify({
    id: `chatcmpl-${answer.id}`,
    object: 'chat.completion',
    created: CREATED,
    model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: answer.text === '' ? null : answer.text,
          ...(answer.reasoning === '' ? {} : { reasoning_content: answer.reasoning }),
          ...(answer.calls.length === 0 ? {} : { tool_calls: answer.calls.map(callJson) }),
        },
        logprobs: null,
        finish_reason: finishReason(answer),
      },
    ],
    usage: usageJson(answer),
  })
}

export function* openAiEvents(answer: Answer, model: string, withUsage: boolean): Iterable<string> {
  const head = { id: `chatcmpl-${answer.id}`, object: 'chat.completion.chunk', created: CREATED, model }
  const event = (delta: unknown, finish: string | null = null): string =>
    encodeSse({
      data: JSON.stringify({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }] }),
    })
  yield event({ role: 'assistant', content: '' })
  for (const text of chunksOf(answer.reasoning)) yield event({ reasoning_content: text })
  for (const text of chunksOf(answer.text)) yield event({ content: text })
  for (const [index, call] of answer.calls.entries()) {
    const { id, type } = callJson(call)
    yield event({ tool_calls: [{ index, id, type, function: { name: call.name, arguments: '' } }] })
    for (const text of chunksOf(JSON.stringify(call.arguments))) {
      yield event({ tool_calls: [{ index, function: { arguments: text } }] })
    }
  }
  yield event({}, finishReason(answer))
  if (withUsage) yield encodeSse({ data: JSON.stringify({ ...head, choices: [], usage: usageJson(answer) }) })
  yield encodeSse({ data: '[DONE]' })
}

export function openAiModels(names: readonly string[]): string {
  const data = names.map((id) => ({ id, object: 'model', created: CREATED, owned_by: 'breakfall' }))
  return JSON.stringify({ object: 'list', data })
}

// ---- details ----

const finishReason = (answer: Answer): string => (answer.calls.length > 0 ? 'tool_calls' : 'stop')

const callJson = (call: Answer['calls'][number]): { id: string; type: string; function: unknown } => ({
  id: call.id,
  type: 'function',
  function: { name: call.name, arguments: JSON.stringify(call.arguments) },
})

const usageJson = ({ usage }: Answer): Record<string, number> => ({
  prompt_tokens: usage.inputTokens,
  completion_tokens: usage.outputTokens,
  total_tokens: usage.inputTokens + usage.outputTokens,
})
