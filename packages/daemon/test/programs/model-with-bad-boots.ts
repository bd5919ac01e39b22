/**
 * A model server whose boots go wrong in the order of its arguments, and well after that:
 *
 *   model-with-bad-boots.ts PORT LOG BEHAVIOUR…
 *
 * Every boot appends its port to LOG. Every bad boot sends half an answer first.
 */
import { appendFileSync, readFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'

const [port = '0', log = '', ...behaviours] = process.argv.slice(2)
appendFileSync(log, `${port}\n`)
const boot = readFileSync(log, 'utf8').trim().split('\n').length
const behaviour = behaviours[boot - 1] ?? 'answers'
/** How many requests must be in flight before a boot goes wrong. */
const [how, crowd = '1'] = behaviour.split(':')
const waiting: ServerResponse[] = []
let drops = 1

const server = createServer((req, res) => {
  if (req.url === '/health') return void res.end('{}')
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  if (how === 'answers' || (how === 'drops-one' && drops === 0)) {
    chunk(res, { role: 'assistant', content: 'whole at last' }, null)
    chunk(res, {}, 'stop')
    return void res.end('data: [DONE]\n\n')
  }
  chunk(res, { role: 'assistant', content: 'half of ' }, null)
  waiting.push(res)
  if (waiting.length >= Number(crowd)) setTimeout(goWrong, 100)
}).listen(Number(port), '127.0.0.1')

function goWrong(): void {
  switch (String(how)) {
    case 'out-of-memory':
      process.stderr.write(
        'ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9663.68 MiB on device 0: cudaMalloc failed: out of memory\n',
      )
      process.exit(1)
      break
    case 'exit-0':
      process.exit(0)
      break
    case 'abort':
      process.abort()
      break
    case 'drops-one':
      drops -= 1
      for (const res of waiting) res.destroy()
      break
    case 'outlives-its-socket':
      process.stderr.write('CUDA error: an illegal memory access was encountered\n')
      server.close()
      server.closeAllConnections()
      setTimeout(() => process.exit(1), 60_000)
      break
    default:
      throw new Error(`no such behaviour: ${behaviour}`)
  }
}

function chunk(res: ServerResponse, delta: object, finish: string | null): void {
  const choices = [{ index: 0, delta, finish_reason: finish }]
  const body = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'local', choices }
  res.write(`data: ${JSON.stringify(body)}\n\n`)
}
