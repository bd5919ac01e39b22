// A model server: becomes healthy after a moment, streams on /stream forever, and dies of GPU memory on /crash.
import http from 'node:http'

const [port = '0', mode = 'well'] = process.argv.slice(2)
let loaded = mode !== 'loads'
setTimeout(() => {
  loaded = true
}, 150)

const server = http.createServer((request, response) => {
  switch (request.url ?? '') {
    case '/health':
      response.writeHead(loaded ? 200 : 503).end()
      return
    case '/whole':
      response.end('all of it')
      return
    case '/stream':
      response.write('data: one\n\n')
      return
    case '/flood':
      setInterval(() => response.write('data: '.repeat(100_000)), 1)
      return
    case '/drops':
      response.write('data: one\n\n', () => response.destroy())
      return
    case '/crash':
      process.stderr.write('CUDA error: out of memory\n', () => process.abort())
      return
    default:
      response.writeHead(404).end()
  }
})
server.on('error', (error) => {
  process.stderr.write(`Error: ${error.message}\n`, () => process.exit(1))
})
server.listen(Number(port), '127.0.0.1')
