/** A scripted daemon on loopback: each request is answered by the test, and kept for it to look at. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type SeenRequest = {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export type Answer = (response: ServerResponse, request: SeenRequest, index: number) => void | Promise<void>

export class FakeDaemon implements AsyncDisposable {
  readonly requests: SeenRequest[] = []
  readonly #server

  private constructor(answer: Answer) {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const { method = '', url = '', headers } = request
        const seen = { method, path: url, headers, body: Buffer.concat(chunks).toString() }
        void answer(response, seen, this.requests.push(seen) - 1)
      })
    })
  }

  static async start(answer: Answer): Promise<FakeDaemon> {
    const daemon = new FakeDaemon(answer)
    daemon.#server.listen(0, '127.0.0.1')
    await once(daemon.#server, 'listening')
    return daemon
  }

  get url(): string {
    const address: AddressInfo | string | null = this.#server.address()
    return typeof address === 'object' && address !== null ? `http://127.0.0.1:${address.port}` : ''
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => void this.#server.close(resolve))
  }
}

export function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

export function sse(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.flushHeaders()
}

/** A text-delta with this number, as the daemon writes it. */
export function frame(seq: number, journal = 'j1'): string {
  const event = {
    seq,
    type: 'text-delta',
    sessionId: 's1',
    turnId: 't1',
    at: '2026-11-15T12:00:00.000Z',
    step: 1,
    attempt: 1,
    part: 'p1',
    text: `word ${seq} `,
  }
  return `event: text-delta\nid: ${journal}-${seq}\ndata: ${JSON.stringify(event)}\n\n`
}

export const SESSION = {
  id: 's1',
  title: null,
  state: 'idle',
  turnId: null,
  model: 'm',
  boxId: 'b1',
  createdAt: '2026-11-15T12:00:00.000Z',
  lastSeq: 0,
}
