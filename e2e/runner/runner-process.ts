/** A real runner process and raw HTTP requests to it. Uses only the wire contract. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { removeFolder } from '../../test/kit/folder.ts'
import type { Json } from '../../test/kit/json.ts'
import { nodeProgram, type Program } from '../../test/kit/program.ts'
import { SseReader } from '../../test/kit/sse.ts'
import { removeControlGroups } from '../control-groups.ts'

const main = fileURLToPath(new URL('../../packages/cli/src/main.ts', import.meta.url))

export type { Json } from '../../test/kit/json.ts'

export type Answer = {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly bytes: Buffer
  readonly text: string
  readonly json: Json
}

export type Ask = {
  readonly json?: unknown
  readonly body?: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
  /** `null` sends no token. */
  readonly token?: string | null
}

/** One block of an event stream: its three fields, with parsed data. */
export type Block = { readonly id: string | null; readonly event: string | null; readonly data: Json }

export type Stream = AsyncDisposable & {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly blocks: AsyncIterableIterator<Block>
}

export type RunnerOptions = {
  readonly flags?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** A state folder, a token file and their runner, which a test can restart. */
export class WireRunner implements AsyncDisposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'breakfall-wire-'))
  readonly stateDir = join(this.folder, 'state')
  readonly tokenFile = join(this.folder, 'token')
  readonly #options: RunnerOptions
  program!: Program
  listening: Json
  url = ''

  constructor(options: RunnerOptions = {}) {
    this.#options = options
    mkdirSync(join(this.folder, 'home'))
  }

  static async start(options: RunnerOptions = {}): Promise<WireRunner> {
    const runner = new WireRunner(options)
    await runner.start()
    return runner
  }

  async start(): Promise<void> {
    const flags = ['--port', '0', '--json', '--token-file', this.tokenFile, '--state-dir', this.stateDir]
    this.program = nodeProgram(main, ['runner', ...flags, ...(this.#options.flags ?? [])], {
      cwd: this.folder,
      env: { PATH: process.env['PATH'] ?? '', HOME: join(this.folder, 'home'), ...this.#options.env },
    })
    this.listening = await this.program.listening()
    this.url = this.listening.url
  }

  get level(): string {
    return this.listening.isolation.level
  }

  get token(): string {
    return readFileSync(this.tokenFile, 'utf8').split(/\s/)[0] ?? ''
  }

  /** Sends `signal` to the process and waits for its end. */
  async end(signal: NodeJS.Signals): Promise<number | null> {
    const timer = setTimeout(() => void this.program.kill('SIGKILL'), 10_000)
    const { code } = await this.program.kill(signal)
    clearTimeout(timer)
    return code
  }

  async ask(method: string, path: string, ask: Ask = {}): Promise<Answer> {
    const response = await this.#send(method, path, ask)
    const chunks: Buffer[] = []
    for await (const chunk of response) chunks.push(chunk as Buffer)
    const bytes = Buffer.concat(chunks)
    const text = bytes.toString()
    const isJson = /\bjson\b/.test(response.headers['content-type'] ?? '')
    const status = response.statusCode ?? 0
    assert.ok(response.headers['x-request-id'], `${method} ${path} answered ${status} without x-request-id`)
    return {
      status,
      headers: response.headers,
      bytes,
      text,
      json: isJson && text !== '' ? JSON.parse(text) : undefined,
    }
  }

  get = (path: string, ask?: Ask): Promise<Answer> => this.ask('GET', path, ask)
  post = (path: string, json?: unknown, ask?: Ask): Promise<Answer> => this.ask('POST', path, { json, ...ask })
  put = (path: string, body: string | Buffer, ask?: Ask): Promise<Answer> => this.ask('PUT', path, { body, ...ask })
  delete = (path: string, ask?: Ask): Promise<Answer> => this.ask('DELETE', path, ask)

  async stream(method: string, path: string, ask: Ask = {}): Promise<Stream> {
    const response = await this.#send(method, path, {
      ...ask,
      headers: { accept: 'text/event-stream', ...ask.headers },
    })
    return {
      status: response.statusCode ?? 0,
      headers: response.headers,
      blocks: blocksOf(response),
      [Symbol.asyncDispose]: async () => {
        response.destroy()
      },
    }
  }

  /** Reads a whole event stream. */
  async events(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Block[]> {
    await using stream = await this.stream('GET', path, { headers })
    assert.equal(stream.status, 200)
    assert.match(stream.headers['content-type'] ?? '', /^text\/event-stream/)
    return await Array.fromAsync(stream.blocks)
  }

  /** Sends bytes over a plain socket and returns everything until the other side closes. */
  async raw(bytes: string): Promise<string> {
    const { hostname, port } = new URL(this.url)
    const socket = connect(Number(port), hostname)
    socket.on('error', () => {}) // a reset counts as the end: the test reads what came before it
    socket.write(bytes)
    const chunks: Buffer[] = []
    socket.on('data', (chunk) => chunks.push(chunk))
    await once(socket, 'close')
    return Buffer.concat(chunks).toString('latin1')
  }

  async box(create: Json = {}): Promise<string> {
    const made = await this.post(BOXES, create)
    assert.equal(made.status, 201, made.text)
    return made.json.id
  }

  /** Starts an exec, waits for its end and returns the record. */
  async run(box: string, request: Json): Promise<Json> {
    const started = await this.post(`${BOXES}/${box}/exec`, request)
    assert.equal(started.status, 201, started.text)
    return this.wait(box, started.json.execId)
  }

  async wait(box: string, execId: string): Promise<Json> {
    const over = await this.get(`${BOXES}/${box}/execs/${execId}/wait`)
    assert.equal(over.status, 200, over.text)
    return over.json
  }

  async output(box: string, execId: string, stream: 'stdout' | 'stderr' = 'stdout'): Promise<string> {
    const output = await this.get(`${BOXES}/${box}/execs/${execId}/output/${stream}`)
    assert.equal(output.status, 200, output.text)
    return output.text
  }

  /** Runs a shell line and returns its standard output. */
  async shell(box: string, shell: string): Promise<string> {
    const record = await this.run(box, { shell })
    return this.output(box, record.execId)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end('SIGTERM')
    for (const pid of processesNaming(this.folder)) killIfThere(pid)
    await removeControlGroups(this.folder)
    removeFolder(this.folder)
  }

  #send(method: string, path: string, ask: Ask): Promise<IncomingMessage> {
    const token = ask.token === undefined ? this.token : ask.token
    const body = ask.json === undefined ? ask.body : JSON.stringify(ask.json)
    const { hostname, port } = new URL(this.url)
    return new Promise((resolve, reject) => {
      const outgoing = request({
        hostname,
        port,
        method,
        path,
        agent: false,
        headers: {
          ...(token === null ? {} : { authorization: `Bearer ${token}` }),
          ...(ask.json === undefined ? {} : { 'content-type': 'application/json' }),
          ...(body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
          ...ask.headers,
        },
      })
      let answered = false
      outgoing.on('response', (response) => {
        answered = true
        resolve(response)
      })
      // A server that refuses a body early may reset the upload after its answer.
      outgoing.on('error', (error) => (answered ? undefined : reject(error)))
      outgoing.end(body)
    })
  }
}

export const BOXES = '/v1/default/boxes'

/** Checks for a complete problem with this status and category. */
export function assertProblem(answer: Answer, status: number, category: string): Json {
  assert.equal(answer.status, status, `${category} expected: ${answer.text}`)
  assert.match(answer.headers['content-type'] ?? '', /^application\/problem\+json/)
  const problem = answer.json
  assert.equal(problem.category, category, answer.text)
  assert.equal(problem.type, `urn:breakfall:fault:${category}`)
  assert.equal(problem.status, status)
  for (const field of ['title', 'detail', 'error', 'errorRaw', 'class', 'boundary', 'next', 'sideEffects', 'at'])
    assert.ok(typeof problem[field] === 'string' && problem[field] !== '', `${category} has no ${field}`)
  assert.match(
    problem.class,
    /^(transient|throttled|needs_action|invalid|cancelled|internal|unknown_outcome)$/,
    answer.text,
  )
  assert.match(problem.boundary, /^(client|model|runner|box|process|journal|daemon)$/, answer.text)
  assert.equal(problem.next, category === 'runner_identity_mismatch' ? 'resolve' : 'never')
  assert.equal(problem.sideEffects, 'none', 'a refusal has no side effects')
  assert.ok(Array.isArray(problem.diagnostics))
  assert.equal(problem.requestId, answer.headers['x-request-id'])
  assert.match(problem.at, ISO)
  return problem
}

export const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** The bytes of one output stream, from its events. */
export function bytesOf(blocks: readonly Block[], type: 'stdout' | 'stderr'): Buffer {
  return Buffer.concat(
    blocks
      .filter(({ event }) => event === type)
      .map(({ data }) => (data.data === undefined ? Buffer.from(data.dataBase64, 'base64') : Buffer.from(data.data))),
  )
}

/** Processes on this machine, including boxes, whose command line contains this text. */
export function processesNaming(words: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map(Number)
    .filter((pid) => commandOf(pid).includes(words))
}

/**
 * Processes with exactly this command line. Their parents contain it too, and may need a moment to exit after the end is
 * reported.
 */
export function processesRunning(command: string): number[] {
  return processesNaming(command).filter((pid) => commandOf(pid) === command)
}

/** The command line of a process, with single spaces. Empty once the process is gone. */
export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trimEnd()
  } catch {
    return '' // it ended meanwhile
  }
}

export function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // it ended meanwhile
  }
}

async function* blocksOf(response: IncomingMessage): AsyncGenerator<Block, undefined> {
  const reader = new SseReader()
  response.setEncoding('utf8')
  for await (const text of response) {
    reader.push(String(text))
    for (const { id = null, event = null, json } of reader.frames.splice(0)) yield { id, event, data: json }
  }
  assert.equal(reader.isCut, false, 'the stream ended inside an event')
}

/** Checks seqs without gaps, ids and event names that match the data, contiguous offsets, valid text, and one final exit. */
export function assertWellFormed(blocks: readonly Block[]): void {
  const offsets: Record<string, number> = { stdout: 0, stderr: 0 }
  for (const [i, { id, event, data }] of blocks.entries()) {
    assert.equal(data.seq, i + 1)
    assert.equal(id, String(i + 1))
    assert.equal(event, data.type)
    assert.equal(event === 'start', i === 0)
    assert.equal(event === 'exit', i === blocks.length - 1)
    if (event !== 'stdout' && event !== 'stderr') continue
    assert.equal(data.offset, offsets[event])
    assert.notEqual(data.data === undefined, data.dataBase64 === undefined)
    if (data.data !== undefined) assert.ok(!data.data.includes('\uFFFD'))
    const bytes = data.data === undefined ? Buffer.from(data.dataBase64, 'base64') : Buffer.from(data.data)
    assert.ok(bytes.length > 0)
    if (data.dataBase64 !== undefined) assert.ok(bytes.toString().includes('\uFFFD'), 'base64 only for invalid UTF-8')
    offsets[event] = (offsets[event] ?? 0) + bytes.length
  }
  assert.equal(blocks.at(-1)?.data.stdoutBytes, offsets['stdout'])
  assert.equal(blocks.at(-1)?.data.stderrBytes, offsets['stderr'])
}
