/**
 * A model server whose boots go wrong in the order of its arguments, and well after that:
 *
 *   model-with-bad-boots.ts PORT LOG [--model FILE] BEHAVIOUR…
 *
 * Every boot appends its port and its pid to LOG. No boot loads without FILE. Boots that go wrong later send half an answer first.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'

const [port = '0', log = '', ...rest] = process.argv.slice(2)
const [file, behaviours] = rest[0] === '--model' ? [rest[1], rest.slice(2)] : [undefined, rest]
appendFileSync(log, `${port} ${process.pid}\n`)
const boot = readFileSync(log, 'utf8').trim().split('\n').length
const behaviour = behaviours[boot - 1] ?? 'answers'
/** How many requests must be in flight before a boot goes wrong, or how long it loads. */
const [how = '', number = '1'] = behaviour.split(':')
const waiting: ServerResponse[] = []
let drops = 1
let isLoaded = true

if (how === 'dies-while-loading' || (file !== undefined && !existsSync(file))) {
  process.stderr.write(`cannot open ${file ?? 'the weights'}\n`)
  process.exit(3)
}
if (how === 'answers-alone') dieUnlessAlone()
if (how === 'loads') load(Number(number))

const server = createServer((req, res) => {
  if (req.url === '/health') return void res.writeHead(isLoaded ? 200 : 503).end('{}')
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  if (how.startsWith('answers') || how === 'loads' || (how === 'drops-one' && drops === 0)) {
    chunk(res, { role: 'assistant', content: 'whole at last' }, null)
    chunk(res, {}, 'stop')
    return void res.end('data: [DONE]\n\n')
  }
  chunk(res, { role: 'assistant', content: 'half of ' }, null)
  waiting.push(res)
  if (waiting.length >= Number(number)) setTimeout(goWrong, 100)
}).listen(Number(port), '127.0.0.1')

/** The boot before this one must be gone. */
function dieUnlessAlone(): void {
  const before = Number(readFileSync(log, 'utf8').trim().split('\n').at(-2)?.split(' ')[1])
  try {
    process.kill(before, 0)
  } catch {
    return
  }
  process.stderr.write(`fatal: boot ${boot - 1} still runs\n`)
  process.exit(4)
}

/** Says how far it is, in ten steps. */
function load(forMs: number): void {
  isLoaded = false
  let steps = 0
  process.stderr.write('load_tensors: 0 of 10\n')
  const timer = setInterval(() => {
    steps += 1
    process.stderr.write(`load_tensors: ${steps} of 10\n`)
    isLoaded = steps === 10
    if (isLoaded) clearInterval(timer)
  }, forMs / 10)
}

function goWrong(): void {
  switch (how) {
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
    case 'blocks':
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
      break
    case 'stops':
      process.kill(process.pid, 'SIGSTOP')
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
