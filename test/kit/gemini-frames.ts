/** Chunks of a Gemini stream, as strings, and answers made of them. */
import { head, lastChunk, type Play } from './plays.ts'

export type GeminiChunk = { readonly finishReason?: string; readonly id?: string }

export const chunkOf = (parts: readonly object[], { finishReason, id = 'resp_1' }: GeminiChunk = {}): string =>
  `data: ${JSON.stringify({
    candidates: [
      { content: { role: 'model', parts }, index: 0, ...(finishReason === undefined ? {} : { finishReason }) },
    ],
    usageMetadata: { promptTokenCount: 4, candidatesTokenCount: 7 },
    modelVersion: 'gemini-fake',
    responseId: id,
  })}\n\n`
export const says = (text: string, chunk?: GeminiChunk): string => chunkOf([{ text }], chunk)
export const calls = (name: string, args: object, more: object = {}): string =>
  chunkOf([{ functionCall: { name, args }, ...more }])
export const stops = (chunk: GeminiChunk = {}): string => chunkOf([{ text: '' }], { finishReason: 'STOP', ...chunk })
export const geminiError = (code: number, status: string, details: readonly object[] = []): object => ({
  error: { code, message: 'not now', status, details },
})
export const geminiAnswer = (...texts: readonly string[]): readonly Play[] => [
  head(),
  ...texts.map((text) => says(text)),
  stops(),
  lastChunk,
]
