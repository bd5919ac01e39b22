/** Loopback servers that each fail in one exact way, and calls that meet the failure. Raw TCP: an HTTP server would clean up. */
import assert from 'node:assert/strict'
import type net from 'node:net'
import { startTcpServer } from '../../../test/kit/tcp-server.ts'
import { classify, type FaultCategory } from '@breakfall/faults'

/** What the server does once it has the request's head. The function it returns runs when the client has read that. */
export type Script = (socket: net.Socket) => void | (() => void)

export type BrokenServer = {
  readonly port: number
  readonly url: string
  /** Called by the client when bytes of the body have arrived. */
  readonly arrived: () => void
  readonly [Symbol.asyncDispose]: () => Promise<void>
}

/** Answers after the blank line that ends a request's head; `atOnce` answers on the first byte, as for a TLS hello. */
export async function serve(script: Script, atOnce = false): Promise<BrokenServer> {
  let leave: (() => void) | undefined
  const server = await startTcpServer((socket) => {
    let seen = ''
    socket.on('data', (bytes) => {
      seen += bytes.toString('latin1')
      if (!atOnce && !seen.includes('\r\n\r\n')) return
      seen = ''
      leave = script(socket) ?? undefined
    })
  })
  return {
    port: server.port,
    url: `http://127.0.0.1:${server.port}/`,
    arrived: () => leave?.(),
    [Symbol.asyncDispose]: () => server.close(),
  }
}

export const SSE_HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n'
export const CHUNKED = `${SSE_HEAD}Transfer-Encoding: chunked\r\n\r\n`
export const EVENT = 'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\n'
export const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

/** Sends the bytes and closes: the FIN follows them. */
export const sayThenClose =
  (text: string): Script =>
  (socket) =>
    void socket.end(text)

/** Sends the bytes and resets once the client has read them: an earlier reset would drop them. */
export const sayThenReset =
  (text: string): Script =>
  (socket) => {
    socket.write(text)
    return () => void socket.resetAndDestroy()
  }

export const reset: Script = (socket) => void socket.resetAndDestroy()

export const say =
  (text: string): Script =>
  (socket) =>
    void socket.write(text)

/** The outcome of a fetch that is read to its end: what was thrown, in which phase, and what had arrived. */
export type Outcome = {
  readonly phase: 'headers' | 'stream'
  readonly thrown: unknown
  readonly text: string
  readonly ended: boolean
}

export async function call(url: string, init: RequestInit = {}, arrived?: () => void): Promise<Outcome> {
  let phase: 'headers' | 'stream' = 'headers'
  let text = ''
  try {
    const response = await fetch(url, init)
    phase = 'stream'
    const decoder = new TextDecoder()
    for await (const bytes of response.body ?? []) {
      text += decoder.decode(bytes as Uint8Array, { stream: true })
      arrived?.()
    }
    return { phase, thrown: undefined, text, ended: true }
  } catch (thrown) {
    return { phase, thrown, text, ended: false }
  }
}

type Dispatcher = { close(): Promise<void>; destroy(): Promise<void> }

/** A connection pool of Node's fetch with other settings. Its class is reachable only through the global pool. */
export async function dispatcher(options: object): Promise<Dispatcher> {
  await fetch('data:,').then((response) => response.text()) // the global pool exists after a first use
  const pool = (globalThis as Record<symbol, unknown>)[Symbol.for('undici.globalDispatcher.1')] as object
  const Agent = pool.constructor as new (options: object) => Dispatcher
  return new Agent(options)
}

export const through = (pool: Dispatcher): RequestInit => Object.assign<RequestInit, object>({}, { dispatcher: pool })

export type Expected = {
  readonly model: FaultCategory
  readonly runner: FaultCategory
  readonly phase: string
  /** In the raw error: what the machine said. */
  readonly raw: RegExp
}

/** Checks the category at each boundary. The caller knows the phase: `headers` during `fetch`, `stream` while it reads the body. */
export function check(thrown: unknown, phase: string, expected: Expected): void {
  assert.ok(thrown !== undefined, 'nothing was thrown')
  for (const boundary of ['model', 'runner'] as const) {
    const fault = classify(thrown, { boundary, phase })
    assert.equal(fault.category, expected[boundary], `${boundary}: ${fault.errorRaw}`)
    assert.equal(fault.report.phase, expected.phase)
    assert.equal(fault.report.boundary, boundary)
    assert.match(fault.errorRaw, expected.raw)
    assert.equal(fault.cause, thrown)
    const unaided = classify(thrown, { boundary })
    assert.equal(unaided.category, expected[boundary], 'without the caller naming the phase')
  }
}
