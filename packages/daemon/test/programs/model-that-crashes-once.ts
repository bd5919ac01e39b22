/** A model server that dies out of memory in the middle of its first answer, and works after it was restarted. */
import { existsSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'

const [port = '0', marker = ''] = process.argv.slice(2)

createServer((req, res) => {
  if (req.url === '/health') return void res.end('{}')
  const chunk = (delta: object, finish: string | null): boolean =>
    res.write(
      `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'local', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`,
    )
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  if (!existsSync(marker)) {
    writeFileSync(marker, '')
    chunk({ role: 'assistant', content: 'half of ' }, null)
    setTimeout(() => {
      process.stderr.write(
        'ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9663.68 MiB on device 0: cudaMalloc failed: out of memory\n',
      )
      process.exit(1)
    }, 100)
    return
  }
  chunk({ role: 'assistant', content: 'whole at last' }, null)
  chunk({}, 'stop')
  res.end('data: [DONE]\n\n')
}).listen(Number(port), '127.0.0.1')
