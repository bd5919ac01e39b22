/** The rehearsal model's answers as Gemini's `GenerateContentResponse`, complete or streamed. Pure. */
import { encodeSse } from '@breakfall/wire'
import { chunksOf } from './chunks.ts'
import type { Answer } from './script.ts'

export function geminiBody(answer: Answer, model: string): string {
  const parts = [...(answer.text === '' ? [] : [{ text: answer.text }]), ...callParts(answer)]
  return JSON.stringify(responseOf(answer, model, parts, true))
}

/** Gemini sends calls whole and has no terminal event: the last chunk has a finish reason, then the body ends. */
export function* geminiEvents(answer: Answer, model: string): Iterable<string> {
  const event = (parts: readonly unknown[], isLast = false): string =>
    encodeSse({ data: JSON.stringify(responseOf(answer, model, parts, isLast)) })
  for (const text of chunksOf(answer.reasoning)) yield event([{ text, thought: true }])
  for (const text of chunksOf(answer.text)) yield event([{ text }])
  for (const part of callParts(answer)) yield event([part])
  yield event([{ text: '' }], true)
}

// ---- details ----

const callParts = (answer: Answer): readonly unknown[] =>
  answer.calls.map(({ name, arguments: args }) => ({ functionCall: { name, args } }))

function responseOf(answer: Answer, model: string, parts: readonly unknown[], isLast: boolean): unknown {
  const { inputTokens, outputTokens } = answer.usage
  return {
    candidates: [{ content: { role: 'model', parts }, index: 0, ...(isLast ? { finishReason: 'STOP' } : {}) }],
    usageMetadata: {
      promptTokenCount: inputTokens,
      candidatesTokenCount: outputTokens,
      totalTokenCount: inputTokens + outputTokens,
    },
    modelVersion: model,
    responseId: answer.id,
  }
}
