// A model server that is healthy until it is asked. GET /answer then makes it hang or be slow, as its argument says:
//
//   hangs-or-is-slow.ts PORT HOW [MS]
//
// A slow one takes MS and then answers `done at last`. `half` before a name sends a first chunk.
import { writeSync } from 'node:fs'
import http from 'node:http'
import { Worker } from 'node:worker_threads'

const [port = '0', how = '', ms = '0'] = process.argv.slice(2)
let isBusy = false

const server = http.createServer((request, response) => {
  if (request.url === '/health') {
    response.writeHead(isBusy && how.endsWith('says-busy') ? 503 : 200).end()
    return
  }
  if (!how.startsWith('half')) return goWrong(response)
  response.write('half of it', () => setTimeout(() => goWrong(response), 20)) // the chunk is on its way first
})
server.listen(Number(port), '127.0.0.1')

function goWrong(response: http.ServerResponse): void {
  const finish = (): void => void response.end('done at last')
  switch (how.replace(/^half-/, '')) {
    case 'stops': // as with SIGSTOP from outside
      process.kill(process.pid, 'SIGSTOP')
      return
    case 'blocks': // no thread answers, no CPU time passes
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
      return
    case 'forgets': // its health check still answers
      return
    case 'computes': // a long prompt: nothing answers, one core is busy
      compute(Number(ms))
      finish()
      return
    case 'thinks': // another thread is busy, the health check answers
    case 'thinks-and-says-busy':
      isBusy = true
      new Worker(`(${compute.toString()})(${ms})`, { eval: true }).once('exit', finish)
      return
    case 'logs': // nothing answers, but it says what it does
      log(Number(ms))
      finish()
      return
    default:
      throw new Error(`no such behaviour: ${how}`)
  }
}

function compute(forMs: number): void {
  const until = performance.now() + forMs
  while (performance.now() < until);
}

function log(forMs: number): void {
  const cell = new Int32Array(new SharedArrayBuffer(4))
  for (const until = performance.now() + forMs; performance.now() < until; Atomics.wait(cell, 0, 0, 20)) {
    writeSync(2, 'prompt processing progress\n')
  }
}
