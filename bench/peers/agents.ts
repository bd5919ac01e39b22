/** The `@openai/agents` package: an agent with a tool, streamed, with its own retry settings switched on. */
import { untyped } from '../../test/kit/json.ts'
import { Agent, OpenAIChatCompletionsModel, retryPolicies, run, setTracingDisabled, tool } from '@openai/agents'
import OpenAI from 'openai'
import { BASH, type Player, RETRIES_MAX, STALL_MS } from './player.ts'

setTracingDisabled(true)

// Both of its layers are on: the client's retries, and the runner's opt-in policy, with replay approved.
const { any, providerSuggested, networkError, httpStatus } = retryPolicies
const isWorthARetry = any(providerSuggested(), networkError(), httpStatus([408, 409, 429, 500, 502, 503, 529]))

export const agents: Player = {
  name: '@openai/agents',
  drives: 'alone',
  package: '@openai/agents',
  settings: `maxRetries ${RETRIES_MAX}, retry policy for network errors and statuses with replay approved, timeoutMs ${STALL_MS * 4}`,
  async play({ baseUrl, model, prompt, stepsMax, bash, signal }) {
    const client = new OpenAI({ baseURL: baseUrl, apiKey: 'none', maxRetries: RETRIES_MAX, logLevel: 'off' })
    const agent = new Agent({
      name: 'steps',
      model: new OpenAIChatCompletionsModel(untyped(client), model),
      modelSettings: {
        timeoutMs: STALL_MS * 4,
        retry: {
          maxRetries: RETRIES_MAX,
          backoff: { initialDelayMs: 250, multiplier: 2, jitter: true },
          policy: async (context) => {
            const decision = await isWorthARetry(context)
            const retry = typeof decision === 'boolean' ? decision : decision.retry
            return { ...(typeof decision === 'boolean' ? {} : decision), retry, approveUnsafeReplay: true }
          },
        },
      },
      tools: [
        tool({
          name: BASH.name,
          description: BASH.description,
          parameters: untyped(BASH.parameters),
          strict: false,
          execute: (input) => bash((input as { command: string }).command),
        }),
      ],
    })
    const result = await run(agent, prompt, { stream: true, maxTurns: stepsMax, signal })
    const texts: string[] = []
    let text = ''
    for await (const event of result) {
      if (event.type !== 'raw_model_stream_event') continue
      if (event.data.type === 'response_started') text = ''
      else if (event.data.type === 'output_text_delta') text += event.data.delta
      else if (event.data.type === 'response_done') texts.push(text)
    }
    await result.completed
    if (result.error !== null && result.error !== undefined) throw new Error('the run failed', { cause: result.error })
    return { texts }
  },
}
