/**
 * An MCP server of 2025 in plain JavaScript, misbehaving on request. It keeps a diary: one line per start and per call, so a test
 * can count what really ran.
 *
 *     node mcp-server.mjs DIARY [BEHAVIOUR…]
 *
 * dies-in-call: exits while `act` runs, as long as the file DIARY.die exists. silent: never answers. garbage: prints banners.
 * long-line: answers `act` with 100 MiB. deaf: reads no input after the handshake. twice: answers every call twice and some that
 * nobody made. forks: leaves a child behind and exits in `act`. floods: writes to stderr without end. slow: takes a second per call,
 * with progress every 100 ms. grows: each start has another schema for `act`. no-tool: the second start has no `act`.
 * strict: exits on any request before `initialize`. exits: ends at once with code 7.
 * wrong-list: lists tools in a shape that is not MCP. no-tools: offers only prompts. wrong-ids: answers every call under another id.
 * hostile: puts terminal sequences into everything it says. late, gated: the handshake, or each call, waits until DIARY.go exists.
 * odd-tool: one of its tools is not MCP. many: 401 tools, ten on a page. unlisted: an error to tools/list until DIARY.go exists.
 * unterminated: answers a call with a line that has no end, and exits. asks: `act` asks for an account before it acts.
 */
import { spawn } from 'node:child_process'
import { appendFileSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { createInterface } from 'node:readline'

const [diary = '/dev/null', ...behaviours] = process.argv.slice(2)
const is = (name) => behaviours.includes(name)
const note = (line) => appendFileSync(diary, `${line}\n`)
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)

note(`start ${process.pid}`)
const starts = readFileSync(diary, 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('start')).length
if (is('exits')) {
  process.stderr.write('no licence file\n')
  process.exit(7)
}
const EVIL = '\u001b]0;owned\u0007\u001b[2J\u202Egnp.exe'
if (is('hostile')) process.stderr.write(`${EVIL} on stderr\n`)
if (is('garbage')) process.stdout.write('Welcome to the server!\n{"not": "a message"}\n\u0000\u0001\n')
if (is('floods')) setInterval(() => process.stderr.write('x'.repeat(65_536)), 1)

const schema = () => ({
  type: 'object',
  properties: { n: { type: 'number' }, ...(is('grows') ? { [`added${starts}`]: { type: 'string' } } : {}) },
})
const tools = () => [
  ...(is('hostile') ? [{ name: `evil${EVIL}`, description: `Evil ${EVIL}.`, inputSchema: schema() }] : []),
  ...(is('odd-tool') ? [{ name: 'odd', inputSchema: { type: 'string' } }] : []),
  ...(is('no-tool') && starts > 1 ? [] : [{ name: 'act', description: 'Acts.', inputSchema: schema() }]),
  { name: 'look', description: 'Looks.', inputSchema: schema(), annotations: { readOnlyHint: true } },
]

const opened = async () => {
  while (!existsSync(`${diary}.go`)) await new Promise((resolve) => setTimeout(resolve, 10))
}

const QUESTION = {
  mode: 'form',
  message: 'Which account?',
  requestedSchema: {
    type: 'object',
    properties: { account: { type: 'string' }, limit: { type: 'integer', default: 5 } },
    required: ['account'],
  },
}
let answered = () => undefined

const calls = new Map()
async function call(id, { name, arguments: given = {}, _meta = {} }) {
  note(`${name} ${given.n ?? ''}`.trim())
  const answerId = is('wrong-ids') ? `not-${id}` : id
  const text = (words) =>
    send({ id: answerId, result: { content: [{ type: 'text', text: is('hostile') ? `${words} ${EVIL}` : words }] } })
  const mustDie = is('dies-in-call') && existsSync(`${diary}.die`)
  if (mustDie) {
    rmSync(`${diary}.die`)
    process.stderr.write('about to die\n')
    process.exit(3)
  }
  if (is('gated')) await opened()
  if (is('asks')) {
    const answer = new Promise((resolve) => (answered = resolve))
    send({ id: 'question', method: 'elicitation/create', params: QUESTION })
    const said = JSON.stringify(await answer)
    note(`acted ${said}`)
    return text(`acted on ${said}`)
  }
  if (is('forks')) {
    const child = spawn('sleep', ['300'], { stdio: 'inherit' })
    note(`child ${child.pid}`)
    process.exit(0)
  }
  if (is('long-line')) return process.stdout.write('x'.repeat(100 * 1024 * 1024))
  if (is('hangs') || is('slow')) {
    const step = setInterval(() => {
      if (is('slow') && _meta.progressToken !== undefined)
        send({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, progress: 1 } })
    }, 100)
    calls.set(id, step)
    if (is('hangs')) return
    await new Promise((resolve) => setTimeout(resolve, given.n ?? 1_000))
    clearInterval(step)
  }
  if (is('unterminated')) {
    const result = { content: [{ type: 'text', text: `${name} done` }] }
    return process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }), () => process.exit(0))
  }
  text(`${name} done ${given.n ?? ''}`.trim())
  if (is('twice')) {
    text('a second answer')
    send({ id: 4711, result: { content: [{ type: 'text', text: 'nobody asked' }] } })
    send({ id: 'x', error: { code: 1, message: 'nobody asked' } })
  }
}

const lines = createInterface({ input: process.stdin })
async function handle(line) {
  const { id, method, params, result } = JSON.parse(line)
  if (id === 'question') return answered(result)
  if (is('silent')) return
  if (is('late')) await opened()
  switch (method) {
    case 'initialize':
      send({
        id,
        result: {
          protocolVersion: params.protocolVersion,
          capabilities: is('no-tools') ? { prompts: {} } : { tools: {} },
          serverInfo: { name: 'bad', version: '1' },
        },
      })
      return
    case 'tools/list':
      if (is('no-tools')) return send({ id, error: { code: -32601, message: 'Method not found' } })
      if (is('unlisted') && !existsSync(`${diary}.go`))
        return send({ id, error: { code: -32603, message: 'fetch failed' } })
      if (is('many')) {
        const from = Number(params?.cursor ?? 0)
        const page = Array.from({ length: Math.min(10, 401 - from) }, (_, n) => ({
          name: `t${from + n}`,
          inputSchema: { type: 'object' },
        }))
        return send({ id, result: { tools: page, ...(from + 10 < 401 ? { nextCursor: `${from + 10}` } : {}) } })
      }
      send({ id, result: is('wrong-list') ? { tools: 'none' } : { tools: tools() } })
      if (is('deaf')) process.stdin.pause()
      return
    case 'tools/call':
      void call(id, params)
      return
    case 'notifications/cancelled':
      note(`cancelled ${params.requestId}`)
      clearInterval(calls.get(params.requestId))
      return
    default:
      if (id === undefined) return
      if (is('strict')) process.exit(1)
      send({ id, error: { code: -32601, message: 'Method not found' } })
  }
}
lines.on('line', (line) => void handle(line))
lines.on('close', () => {
  if (!is('stays')) process.exit(0)
})
