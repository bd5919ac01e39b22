/** A model that calls one tool per step and refuses requests that are longer than its window. Runs in a separate process. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'

const [windowBytes = Number.POSITIVE_INFINITY, steps = 0] = process.argv.slice(2).map(Number)
const starts: number[] = []

async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(chunk as Buffer)
  const body = Buffer.concat(chunks)
  if (body.length > windowBytes) {
    const message = `This model's maximum context length is ${Math.floor(windowBytes / 4)} tokens. However, your messages resulted in ${Math.ceil(body.length / 4)} tokens.`
    res.writeHead(400, { 'content-type': 'application/json' })
    res.end(JSON.stringify({ error: { message, code: 'context_length_exceeded' } }))
    return
  }
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  const isSummary = !body.includes('"tools":')
  const last = body.lastIndexOf('"tool_call_id":"call_')
  const step = last === -1 ? 0 : Number.parseInt(body.toString('latin1', last + 21, last + 30), 10)
  if (!isSummary) starts.push(performance.now())
  const delta = isSummary
    ? { content: 'All steps so far went well.' }
    : step >= steps
      ? { content: 'done' }
      : {
          tool_calls: [
            {
              index: 0,
              id: `call_${step + 1}`,
              type: 'function',
              function: { name: 'read', arguments: '{"path":"big"}' },
            },
          ],
        }
  const finish = isSummary || step >= steps ? 'stop' : 'tool_calls'
  const usage = { prompt_tokens: Math.ceil(body.length / 4), completion_tokens: 5 }
  for (const frame of [
    { choices: [{ index: 0, delta, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason: finish }], usage },
  ])
    res.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', ...frame })}\n\n`)
  res.end('data: [DONE]\n\n')
  if (!isSummary && step >= steps) process.send?.({ starts })
}

const server = createServer((req, res) => void answer(req, res))
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (address !== null && typeof address === 'object') process.send?.({ port: address.port })
})
