/** The `openai` package: the streaming loop of its documentation, unchanged and with a retry around each step. */
import { resilientFetch } from '@breakfall/model'
import OpenAI, { type ClientOptions } from 'openai'
import { BASH, type Played, type Player, RETRIES_MAX, type Run, STALL_MS } from './player.ts'

export const openai: Player = {
  name: 'openai',
  drives: 'alone',
  package: 'openai',
  settings: `maxRetries ${RETRIES_MAX}`,
  play: (run) => loop(run, 0),
}

/** The same loop, with our `fetch` in place of the package's own. */
export const openaiWithResilientFetch: Player = {
  name: 'openai, resilientFetch',
  drives: 'library',
  package: 'openai',
  settings: `fetch: resilientFetch({ hold: 'answer' }), livenessMs ${STALL_MS}`,
  play: (run) => loop(run, 0, { fetch: resilientFetch({ hold: 'answer', policy: { livenessMs: STALL_MS } }) }),
}

/** What many applications do: catch the error and ask again. What was shown stays on the screen. */
export const openaiWithRetry: Player = {
  name: 'openai, step retried',
  drives: 'alone',
  package: 'openai',
  settings: `maxRetries ${RETRIES_MAX}, and a loop that asks again after any error in a step, ${RETRIES_MAX} times`,
  play: (run) => loop(run, RETRIES_MAX),
}

// ---- details ----

type Call = { id: string; name: string; arguments: string }

async function loop(run: Run, retries: number, more: ClientOptions = {}): Promise<Played> {
  const { baseUrl, model, prompt, bash, signal } = run
  const client = new OpenAI({ baseURL: baseUrl, apiKey: 'none', maxRetries: RETRIES_MAX, logLevel: 'off', ...more })
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: prompt }]
  const texts: string[] = []
  for (;;) {
    let shown = ''
    const ask = async (): Promise<{ text: string; calls: Call[] }> => {
      const stream = await client.chat.completions.create(
        { model, messages, tools: [{ type: 'function', function: BASH }], stream: true },
        { signal },
      )
      let text = ''
      const calls: Call[] = []
      for await (const chunk of stream) {
        const delta = chunk.choices[0]?.delta
        text += delta?.content ?? ''
        shown += delta?.content ?? ''
        for (const piece of delta?.tool_calls ?? []) {
          const call = (calls[piece.index] ??= { id: '', name: '', arguments: '' })
          call.id += piece.id ?? ''
          call.name += piece.function?.name ?? ''
          call.arguments += piece.function?.arguments ?? ''
        }
      }
      for (const call of calls) JSON.parse(call.arguments)
      return { text, calls }
    }
    const { text, calls } = await again(ask, retries)
    texts.push(shown)
    if (calls.length === 0) return { texts }
    const toolCalls = calls.map(({ id, name, arguments: args }) => ({
      id,
      type: 'function' as const,
      function: { name, arguments: args },
    }))
    messages.push({ role: 'assistant', content: text, tool_calls: toolCalls })
    for (const call of calls) {
      const { command } = JSON.parse(call.arguments) as { command: string }
      messages.push({ role: 'tool', tool_call_id: call.id, content: bash(command) })
    }
  }
}

async function again<T>(ask: () => Promise<T>, retries: number): Promise<T> {
  for (let failures = 0; ; failures += 1) {
    try {
      return await ask()
    } catch (error) {
      if (failures >= retries) throw error
    }
  }
}
