/**
 * What one client can do to the gateway: bodies that decompress or parse to gigabytes, uploads and headers that never end, readers that
 * stop reading, answers of tiny frames. For each: the most memory the process took, and how long its event loop was blocked at most, in CPU time.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, request, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { report, round, table } from './kit.ts'

const WATCHED_MS = 8_000 // for shapes that end only when their client leaves
const MB = 1e6

type Reply = { readonly blockedMs: number; readonly usedBytes: number }

type Shape = {
  readonly name: string
  readonly hold?: 'auto' | 'answer'
  /** What the upstream sends, piece by piece; without it, it refuses every request. */
  readonly stream?: () => Iterable<string>
  /** Attacks. Returns what the clients got. `look` is called before clients that only wait leave. */
  readonly attack: (port: number, look: () => Promise<void>) => Promise<string>
  /** Clients that wait. */
  readonly clients?: number
}

const OBJECTS = Buffer.from(`{"model":"m","a":[${'{},'.repeat(21_000_000)}{}]}`)
const NESTED = Buffer.from(`{"model":"m","a":${'['.repeat(30_000_000)}${']'.repeat(30_000_000)}}`)
const TOOLS = Buffer.from(`{"model":"m","stream":true,"tools":[${'{},'.repeat(49_000)}{}]}`)
const ASKS = '{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}'

const HEAD = 'POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n'

const upload = (bytes: number): string =>
  `${HEAD}content-length: 60000000\r\n\r\n{"model":"m","a":"${'x'.repeat(bytes)}`

const endlessHead = (): string =>
  `${HEAD}${Array.from({ length: 60 }, (_, i) => `x-${i}: ${'y'.repeat(1_000)}\r\n`).join('')}`

const frame = (delta: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
function* frames(bytes: number, next: (index: number) => string): Iterable<string> {
  for (let [sent, index] = [0, 0]; sent < bytes; index++) {
    const piece = next(index)
    sent += piece.length
    yield piece
  }
  yield `${frame({}, 'stop')}data: [DONE]\n\n`
}
const texts = (text: string) => (): Iterable<string> => {
  const one = frame({ content: text })
  return frames(60 * MB, () => one)
}
const call = (index: number): string =>
  frame({ tool_calls: [{ index, id: `c${index}`, type: 'function', function: { name: 'f', arguments: '{}' } }] })

const SHAPES: readonly Shape[] = [
  { name: '21 million objects, compressed to 61 KB', attack: posts(1, gzipSync(OBJECTS), 'gzip') },
  { name: 'the same × 4', attack: posts(4, gzipSync(OBJECTS), 'gzip') },
  { name: 'the same, not compressed, × 4', attack: posts(4, OBJECTS) },
  { name: '30 million nested lists × 4', attack: posts(4, NESTED) },
  { name: '49,000 tools × 16', attack: posts(16, TOOLS) },
  { name: '200 KB, byte by byte, × 4', attack: (port) => all(4, () => byteByByte(port, 0.2 * MB)) },
  { name: '1,000 uploads that stop after 1 MB', attack: (port, look) => stopped(port, look, 1_000, upload(MB)) },
  {
    name: '4,000 requests with 60 KB of headers that do not end',
    attack: (port, look) => stopped(port, look, 4_000, endlessHead()),
  },
  ...(['5 characters', '200 characters', '200 Chinese characters'] as const).map((what) => ({
    name: `20 readers that stop reading, ${what} a frame`,
    stream: texts(what === '5 characters' ? 'xxxxx' : (what === '200 characters' ? 'x' : '\u6f22').repeat(200)),
    ...stalled(20),
  })),
  { name: 'hold `answer`, 1.6 million empty frames × 4', hold: 'answer', stream: () => frames(16 * MB, () => 'data: {}\n\n'), ...stalled(4) }, // prettier-ignore
  { name: 'hold `answer`, 200,000 different frames × 4', hold: 'answer', stream: () => frames(30 * MB, (index) => frame({ content: `${index}` })), ...stalled(4) }, // prettier-ignore
  { name: '100,000 tool calls in an answer', stream: () => frames(16 * MB, call), ...stalled(1) },
]

/** `node bench/gateway-limits.ts empty`: only the shapes whose name has this, and no report. */
const [, , wanted] = process.argv
const rows = []
for (const shape of SHAPES.filter(({ name }) => name.includes(wanted ?? ''))) {
  rows.push(await measured(shape))
  process.stderr.write(`${rows.at(-1)?.join(' | ')}\n`)
}
if (wanted !== undefined) process.exit()
report('gateway-limits', {
  title: 'What one client can do to the gateway',
  text: `${table(['one client sends', 'most memory of the process, MB (goal 512)', 'kept for each that waits, MB (goals 1, and 2 × 16 of a held answer)', 'longest block of its event loop, ms of CPU (goal 100)', 'its clients got'], rows)}

Each in a new process with the default limits. Readers that stop reading are watched for ${WATCHED_MS / 1000} s.`,
})
process.exit()

// ---- details ----

async function measured({
  name,
  hold = 'auto',
  stream,
  attack,
  clients,
}: Shape): Promise<readonly (string | number)[]> {
  const upstream = createServer((req, res) => {
    req.resume().once('end', () => (stream === undefined ? refuse(res) : pour(res, stream()[Symbol.iterator]())))
    res.on('error', () => undefined)
  }).listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`
  const child = fork(fileURLToPath(new URL('programs/gateway-limits.ts', import.meta.url)), [url, hold], {
    execArgv: ['--expose-gc'],
  })
  const end = (): void => void child.kill('SIGKILL')
  process.once('exit', end)
  const [started] = (await once(child, 'message')) as [Reply & { url: string }]
  let last: Reply | undefined
  const look = async (): Promise<void> => {
    child.send('look')
    ;[last] = (await once(child, 'message')) as [Reply]
  }
  const got = await attack(Number(new URL(started.url).port), look)
  const kept =
    last === undefined || clients === undefined ? '–' : round((last.usedBytes - started.usedBytes) / MB / clients)
  await look()
  const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024
  end()
  process.off('exit', end)
  upstream.closeAllConnections()
  upstream.close()
  return [name, round(peak), kept, round(last?.blockedMs ?? Number.NaN), got]
}

function refuse(res: ServerResponse): void {
  res.writeHead(400, { 'content-type': 'application/json' }).end('{"error":{"message":"no"}}')
}

function pour(res: ServerResponse, pieces: Iterator<string>): void {
  if (!res.headersSent) res.writeHead(200, { 'content-type': 'text/event-stream' })
  for (;;) {
    let [batch, isOver] = ['', false]
    while (!isOver && batch.length < 16_384) {
      const { value, done } = pieces.next() as { value?: string; done?: boolean }
      isOver = done === true
      batch += value ?? ''
    }
    if (isOver) return void res.end(batch)
    if (res.write(batch)) continue
    res.once('drain', () => pour(res, pieces))
    return
  }
}

function counted(results: readonly (string | number)[]): string {
  return [...new Set(results)].map((one) => `${results.filter((other) => other === one).length} × ${one}`).join(', ')
}

async function all(times: number, work: () => Promise<string | number>): Promise<string> {
  return counted(await Promise.all(Array.from({ length: times }, work)))
}

function posts(times: number, body: Buffer, encoding?: string): Shape['attack'] {
  const headers = {
    'content-type': 'application/json',
    ...(encoding === undefined ? {} : { 'content-encoding': encoding }),
  }
  return (port) =>
    all(times, async () => {
      const { promise, resolve } = Promise.withResolvers<string | number>()
      const asked = request({ port, method: 'POST', path: '/v1/chat/completions', agent: false, headers }, (res) => {
        res.resume().once('end', () => resolve(res.statusCode ?? 0))
      })
      asked.on('error', (error) => resolve(String((error as NodeJS.ErrnoException).code)))
      asked.end(body)
      return promise
    })
}

async function byteByByte(port: number, bytes: number): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.write(`${HEAD}transfer-encoding: chunked\r\n\r\n`)
  const pieces = '1\r\n \r\n'.repeat(10_000)
  for (let sent = 0; sent < bytes; sent += 10_000) if (!socket.write(pieces)) await once(socket, 'drain')
  socket.write('0\r\n\r\n')
  const [answer] = (await once(socket, 'data')) as [Buffer]
  return answer.toString().slice(9, 12)
}

/** Sends this on many connections and waits. */
async function stopped(port: number, look: () => Promise<void>, times: number, text: string): Promise<string> {
  const results: string[] = []
  const bytes = Buffer.from(text)
  const sockets = Array.from({ length: times }, () => {
    const socket = connect(port, '127.0.0.1')
    socket.once('data', (data: Buffer) => results.push(data.toString().slice(9, 12)))
    socket.on('error', () => undefined)
    socket.write(bytes)
    return socket
  })
  return left(sockets, look, () => [...results, ...Array.from({ length: times - results.length }, () => 'nothing')])
}

function stalled(readers: number): Pick<Shape, 'attack' | 'clients'> {
  const attack: Shape['attack'] = (port, look) => {
    const sockets = Array.from({ length: readers }, () => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => undefined)
      socket.pause()
      socket.write(`${HEAD}content-length: ${ASKS.length}\r\n\r\n${ASKS}`)
      return socket
    })
    return left(sockets, look, () => ['nothing read'])
  }
  return { attack, clients: readers }
}

async function left(
  sockets: readonly Socket[],
  look: () => Promise<void>,
  results: () => readonly string[],
): Promise<string> {
  await sleep(WATCHED_MS)
  await look()
  for (const socket of sockets) socket.destroy()
  return counted(results())
}
