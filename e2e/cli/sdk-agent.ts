/** An agent with one tool on the SDK that is named, with the `resilientFetch()` of the docs. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import Anthropic from '@anthropic-ai/sdk'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { resilientFetch, type ResilientFetchOptions } from '@breakfall/model'
import { stepCountIs, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { z } from 'zod'

const [sdk = '', options = '{}'] = process.argv.slice(2)
const fetch = resilientFetch(JSON.parse(options) as ResilientFetchOptions)
const TASK = 'Do the task.'
const parameters = { type: 'object' as const, properties: { command: { type: 'string' } }, required: ['command'] }
const about = { name: 'bash', description: 'Runs a shell command.' }

type Command = { readonly command: string }
const bash = async ({ command }: Command): Promise<string> => (await promisify(execFile)('sh', ['-c', command])).stdout
const say = (text: string): void => void process.stdout.write(text)

const AGENTS: Readonly<Record<string, () => Promise<void>>> = {
  openai: async () => {
    const openai = new OpenAI({ fetch })
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: TASK }]
    const tools = [{ type: 'function' as const, function: { ...about, parameters } }]
    for (;;) {
      const stream = openai.chat.completions.stream({ model: 'm', messages, tools })
      for await (const chunk of stream) say(chunk.choices[0]?.delta.content ?? '')
      const message = await stream.finalMessage()
      messages.push(message)
      if (message.tool_calls === undefined) return
      for (const call of message.tool_calls) {
        if (call.type !== 'function') continue
        const content = await bash(JSON.parse(call.function.arguments) as Command)
        messages.push({ role: 'tool', tool_call_id: call.id, content })
      }
    }
  },
  anthropic: async () => {
    const anthropic = new Anthropic({ fetch })
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: TASK }]
    const tools = [{ ...about, input_schema: parameters }]
    for (;;) {
      const stream = anthropic.messages.stream({ model: 'm', max_tokens: 1_000, messages, tools })
      stream.on('text', say)
      const { role, content } = await stream.finalMessage()
      messages.push({ role, content })
      const calls = content.filter((block) => block.type === 'tool_use')
      if (calls.length === 0) return
      const results = calls.map(async ({ id, input }) => ({
        type: 'tool_result' as const,
        tool_use_id: id,
        content: await bash(input as Command),
      }))
      messages.push({ role: 'user', content: await Promise.all(results) })
    }
  },
  ai: async () => {
    const provider = createOpenAICompatible({ name: 'mine', baseURL: process.env['OPENAI_BASE_URL'] ?? '', fetch })
    const { textStream } = streamText({
      model: provider('m'),
      prompt: TASK,
      tools: {
        bash: tool({ description: about.description, inputSchema: z.object({ command: z.string() }), execute: bash }),
      },
      stopWhen: stepCountIs(20),
    })
    for await (const text of textStream) say(text)
  },
}
await AGENTS[sdk]?.()
