/** The `ai` package: `streamText` with a tool, several steps. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { isStepCount, jsonSchema, streamText, tool } from 'ai'
import { BASH, type Player, RETRIES_MAX, STALL_MS } from './player.ts'

const FIRST_MS = 15_000 // its clock for the first content runs through its retries and their waits of 2, 4, 8 s

export const ai: Player = {
  name: 'ai',
  drives: 'alone',
  package: 'ai',
  settings: `maxRetries ${RETRIES_MAX}, timeout.chunkMs ${STALL_MS}, timeout.firstChunkMs ${FIRST_MS}`,
  async play({ baseUrl, model, prompt, stepsMax, bash, signal }) {
    const provider = createOpenAICompatible({ name: 'rehearsal', baseURL: baseUrl })
    const result = streamText({
      model: provider.chatModel(model),
      prompt,
      tools: {
        bash: tool({
          description: BASH.description,
          inputSchema: jsonSchema<{ command: string }>({ ...BASH.parameters, required: [...BASH.parameters.required] }),
          execute: ({ command }) => bash(command),
        }),
      },
      stopWhen: isStepCount(stepsMax),
      maxRetries: RETRIES_MAX,
      timeout: { chunkMs: STALL_MS, firstChunkMs: FIRST_MS },
      abortSignal: signal,
      onError: () => {}, // its default prints; the error part below says the same
    })
    const texts: string[] = []
    for await (const part of result.fullStream) {
      if (part.type === 'start-step') texts.push('')
      else if (part.type === 'text-delta') texts[texts.length - 1] += part.text
      else if (part.type === 'error') throw part.error
      else if (part.type === 'abort') throw new Error(`aborted: ${String(part.reason)}`)
    }
    return { texts }
  },
}
