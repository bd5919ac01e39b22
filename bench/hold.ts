/**
 * What each way of holding back costs and heals: the time until a client sees text, and how many answers reach it whole
 * while one request in five breaks. Two models: the first repeats its answer word for word, as at temperature 0, the second does not.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { startFaultProxy } from '@breakfall/chaos'
import { startGateway } from '@breakfall/gateway'
import type { Hold } from '@breakfall/model'
import OpenAI from 'openai'
import { quantile, report, round, table } from './kit.ts'

const REQUESTS = 150
const AT_ONCE = 15
const RATE = 0.2
const CHUNKS = 40
const CHUNK_MS = 5
const FAULTS = ['reset', 'fin', 'early_end', 'malformed_line', 'in_band_error', 'reset_before_headers'] as const
const ARGUMENTS = '{"command":"ls -la"}'

const TOOLS = [
  {
    type: 'function' as const,
    function: { name: 'bash', parameters: { type: 'object', properties: { command: {} } } },
  },
]

/** A slow model: some words, then a tool call. A `free` model words each answer differently. */
async function startModel(free: boolean): Promise<{ url: string; close(): void }> {
  let asked = 0
  const server = createServer((req, res) => {
    req.resume()
    const wording = free ? ++asked : 0
    const delta = (value: object, finish: string | null = null): string =>
      `data: ${JSON.stringify({ id: `c${wording}`, choices: [{ index: 0, delta: value, finish_reason: finish }] })}\n\n`
    const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'bash', arguments: ARGUMENTS } }
    void (async () => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      for (let index = 0; index < CHUNKS; index++) {
        res.write(delta({ content: `${index === 0 ? `Answer ${wording}:` : ''} word${index}` }))
        await new Promise((resolve) => setTimeout(resolve, CHUNK_MS))
      }
      res.end(delta({ tool_calls: [call] }) + delta({}, 'tool_calls') + 'data: [DONE]\n\n')
    })()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/v1`, close: () => server.closeAllConnections() ?? server.close() }
}

type Verdict = 'whole' | 'error' | 'wrong'

/** Wrong: it ended as if all were well, and it was not. */
async function ask(url: string, firsts: number[], offersTools: boolean): Promise<Verdict> {
  const client = new OpenAI({ baseURL: url, apiKey: 'k', maxRetries: 0, logLevel: 'off' })
  const from = performance.now()
  let text = ''
  let args = ''
  try {
    const stream = await client.chat.completions.create({
      model: 'm',
      stream: true,
      messages: [{ role: 'user', content: 'go' }],
      ...(offersTools ? { tools: TOOLS } : {}),
    })
    for await (const chunk of stream) {
      const delta = chunk.choices[0]?.delta
      if (text === '' && delta?.content != null) firsts.push(performance.now() - from)
      text += delta?.content ?? ''
      for (const call of delta?.tool_calls ?? []) args += call.function?.arguments ?? ''
    }
  } catch {
    return 'error' // a reported failure is an error here
  }
  const [start, ...words] = text.split(' word')
  const isWhole = /^Answer \d+:$/.test(start ?? '') && words.map(Number).every((word, index) => word === index)
  return isWhole && words.length === CHUNKS && args === ARGUMENTS ? 'whole' : 'wrong'
}

const rows: (string | number)[][] = []
for (const [who, free] of [
  ['says the same again', false],
  ['words it otherwise', true],
] as const) {
  for (const way of ['direct', 'none', 'tools', 'auto', 'auto, no tools offered', 'answer'] as const) {
    const [hold] = way.split(', ') as ['direct' | Hold]
    const model = await startModel(free)
    const proxy = await startFaultProxy({
      upstream: model.url,
      plan: {
        seed: 5,
        rate: RATE,
        by: 'ordinal',
        faults: FAULTS.map((kind) => (kind.includes('headers') ? kind : { kind, afterEvents: 20 })),
      },
    })
    const gateway =
      hold === 'direct'
        ? undefined
        : await startGateway({
            upstream: proxy.url,
            hold,
            logger: false,
            policy: { backoffMs: 20 },
            limits: { closeMs: 100 },
          })
    const counts: Record<Verdict, number> = { whole: 0, error: 0, wrong: 0 }
    const firsts: number[] = []
    for (let done = 0; done < REQUESTS; done += AT_ONCE) {
      const verdicts = await Promise.all(
        Array.from({ length: AT_ONCE }, () => ask(gateway?.url ?? proxy.url, firsts, way !== 'auto, no tools offered')),
      )
      for (const verdict of verdicts) counts[verdict]++
    }
    const share = (count: number): string => `${round((count / REQUESTS) * 100)} %`
    rows.push([
      hold === 'direct' ? `${who}: without a gateway` : `${who}: hold ${way}`,
      share(counts.whole),
      share(counts.error),
      share(counts.wrong),
      `${Math.round(quantile(firsts, 0.5))} ms`,
    ])
    await gateway?.close()
    await proxy.close()
    model.close()
  }
}

report('hold', {
  title: 'What each way of holding back costs and heals',
  text: `${table(['model', 'whole', 'error', 'taken for whole, and wrong', 'first text, p50'], rows)}

${REQUESTS} answers each of ${CHUNKS} chunks of text, ${CHUNK_MS} ms apart, and one tool call, read with the \`openai\` package while
${RATE * 100} % of requests break (${FAULTS.join(', ')}), most of them in the middle of the text. \`auto\` holds an answer for at most 30 s, \`answer\` for as long as it takes.`,
})
process.exit(0)
