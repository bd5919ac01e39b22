/** A model of Anthropic's API that works step by step and counts its input as the provider's cache does. */
import { event, toolFrames, textFrames } from '../../../../test/kit/anthropic-frames.ts'
import { startModelServer } from '../../../../test/kit/model-server.ts'
import { head, lastChunk, type Play } from '../../../../test/kit/plays.ts'
import { type CountedInput, PromptCache, usageFields } from '../../../../test/kit/prompt-cache.ts'

export type CachingModel = {
  readonly baseUrl: string
  /** One entry for each request. */
  readonly counted: CountedInput[]
  /** The request bodies, without the marks. */
  readonly plain: string[]
  close(): Promise<void>
}

export type CachingOptions = {
  readonly steps: number
  /** How many calls a step makes. */
  readonly calls: (step: number) => number
  readonly path: string
}

export async function startCachingModel({ steps, calls, path }: CachingOptions): Promise<CachingModel> {
  const cache = new PromptCache()
  const counted: CountedInput[] = []
  const plain: string[] = []
  const server = await startModelServer(({ body, text }): Play => {
    const input = cache.count(body)
    counted.push(input)
    plain.push(text.replaceAll(',"cache_control":{"type":"ephemeral"}', ''))
    const step = counted.length
    const blocks =
      step > steps
        ? textFrames(0, 'all done')
        : Array.from({ length: calls(step) }, (_, at) =>
            toolFrames(at, `toolu_${step}_${at}`, 'read', JSON.stringify({ path })),
          ).flat()
    const usage = { ...usageFields(input), output_tokens: 1 }
    const message = { id: 'msg', type: 'message', role: 'assistant', model: 'claude', content: [], usage }
    const stop = { delta: { stop_reason: step > steps ? 'end_turn' : 'tool_use' }, usage: { output_tokens: 20 } }
    return [
      head(),
      event('message_start', { message }),
      ...blocks,
      event('message_delta', stop),
      event('message_stop'),
      lastChunk,
    ]
  })
  return { baseUrl: server.url, counted, plain, close: () => server.close() }
}
