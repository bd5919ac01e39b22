/** What reading a streamed answer costs: our client and its peers, over a real socket, against JSON.parse of the same frames. */
import { untyped } from '../test/kit/json.ts'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { streamAnswer } from '@breakfall/model'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { Agent, OpenAIChatCompletionsModel, run as runAgent, setTracingDisabled } from '@openai/agents'
import { streamText } from 'ai'
import OpenAI from 'openai'
import { barPlot, compare, report, round, table } from './kit.ts'
import { answerEvents } from './programs/stream-server.ts'

setTracingDisabled(true)

const CHUNKS = 50_000
const server = spawn(process.execPath, [fileURLToPath(new URL('programs/stream-server.ts', import.meta.url))], {
  stdio: ['ignore', 'pipe', 'inherit'],
})
const [line] = (await once(server.stdout, 'data')) as [Buffer]
const origin = line.toString().trim()
const query = `chunks=${CHUNKS}`
const payloads = [...answerEvents('chat', CHUNKS)]
  .flatMap((event) => [...event.matchAll(/^data: (.*)$/gm)].map((match) => match[1] ?? ''))
  .filter((frame) => frame !== '[DONE]')
const messages = [{ role: 'user' as const, content: 'go on' }]

let chars = 0
const expected = payloads.reduce((sum, frame) => sum + contentOf(frame).length, 0)
function contentOf(frame: string): string {
  const json = JSON.parse(frame) as { choices: { delta: { content?: string } }[] }
  return json.choices[0]?.delta.content ?? ''
}

const openAiClient = (): OpenAI =>
  new OpenAI({ baseURL: `${origin}/v1`, apiKey: 'k', defaultQuery: { chunks: String(CHUNKS) } })

const counted = (run: () => Promise<void> | void) => async (): Promise<void> => {
  chars = 0
  await run()
  if (chars !== expected) throw new Error(`${chars} characters instead of ${expected}`)
}

const results = await compare(
  [
    {
      name: 'JSON.parse alone (floor)',
      run: counted(() => {
        for (const frame of payloads) chars += contentOf(frame).length
      }),
    },
    {
      name: 'fetch, split, JSON.parse',
      run: counted(async () => {
        const res = await fetch(`${origin}/v1/chat/completions?${query}`, { method: 'POST', body: '{}' })
        const decoder = new TextDecoder()
        let rest = ''
        for await (const bytes of res.body ?? []) {
          const blocks = (rest + decoder.decode(bytes, { stream: true })).split('\n\n')
          rest = blocks.pop() ?? ''
          for (const block of blocks) if (block !== 'data: [DONE]') chars += contentOf(block.slice(6)).length
        }
      }),
    },
    {
      name: '@breakfall/model',
      run: counted(async () => {
        const request = { baseUrl: `${origin}/v1?${query}`, model: 'm', messages }
        for await (const event of streamAnswer(request)) if (event.type === 'text-delta') chars += event.text.length
      }),
    },
    {
      name: 'openai',
      run: counted(async () => {
        const stream = await openAiClient().chat.completions.create({ model: 'm', messages, stream: true })
        for await (const chunk of stream) chars += chunk.choices[0]?.delta.content?.length ?? 0
      }),
    },
    {
      name: 'ai',
      run: counted(async () => {
        const provider = createOpenAICompatible({
          name: 'x',
          baseURL: `${origin}/v1`,
          queryParams: { chunks: String(CHUNKS) },
        })
        const result = streamText({ model: provider.chatModel('m'), messages })
        for await (const text of result.textStream) chars += text.length
      }),
    },
    {
      name: '@openai/agents',
      run: counted(async () => {
        const agent = new Agent({ name: 'reader', model: new OpenAIChatCompletionsModel(untyped(openAiClient()), 'm') })
        const result = await runAgent(agent, 'go on', { stream: true })
        for await (const event of result) {
          if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta')
            chars += event.data.delta.length
        }
        await result.completed
      }),
    },
  ],
  { rounds: 7, warmUp: 1 },
)
server.kill()

const perMillion = (ms: number): number => round((ms / CHUNKS) * 1000)
report('stream', {
  title: 'Reading a streamed answer',
  text: `${table(
    ['client', 'CPU s per million chunks', 'times the floor'],
    results.map((r) => [r.name, perMillion(r.cpuMs), round(r.ratio)]),
  )}\n\nThe floor parses frames that are already in memory; everybody else reads them from a socket. Goal: at most 1.5 times the floor.`,
  svg: barPlot(
    'CPU against JSON.parse of the same frames',
    results.map((r) => ({ name: r.name, value: r.ratio })),
    { goal: 1.5, unit: '×' },
  ),
})
