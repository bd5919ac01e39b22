/** The client's connection as the relay's sink: back-pressure from the socket, and a limit for a client that stops reading. */
import { validateHeaderName, validateHeaderValue, type ServerResponse } from 'node:http'
import type { Writable } from 'node:stream'
import type { RelaySink, ReturnedHeaders } from '@breakfall/model/internal'

export const REQUEST_ID = 'x-breakfall-request-id'

/** What is noted of an answer while it goes out. */
export type SinkWatching = {
  readonly onFirstByte: () => void
  readonly onBytes: (count: number) => void
}

export type HttpSinkOptions = SinkWatching & { readonly requestId: string; readonly clientStuckMs: number }

export class HttpSink implements RelaySink {
  readonly #res: ServerResponse
  readonly #options: HttpSinkOptions

  readonly cut: (() => void) | undefined

  constructor(res: ServerResponse, options: HttpSinkOptions) {
    this.#res = res
    this.#options = options
    // Without chunks, as in HTTP/1.0, the end of the connection is the proper end of the body.
    this.cut = res.req.httpVersion === '1.0' ? undefined : () => breakOff(res, options.clientStuckMs)
  }

  head(status: number, headers: ReturnedHeaders): void {
    if (this.#isGone) return
    this.#options.onFirstByte()
    this.#res.writeHead(status, { ...sendable(headers), [REQUEST_ID]: this.#options.requestId })
  }

  write(chunk: string | Buffer): boolean {
    if (this.#isGone) return true
    this.#options.onBytes(chunk.length)
    return this.#res.write(chunk)
  }

  drained(): Promise<void> {
    return this.#isGone ? Promise.resolve() : drained(this.#res, this.#options.clientStuckMs)
  }

  end(): void {
    if (!this.#isGone) this.#res.end()
  }

  get #isGone(): boolean {
    return this.#res.destroyed || this.#res.writableEnded
  }
}

/** Resolves when the client has caught up or left. Disconnects a client that reads nothing for too long. */
export function drained(res: Writable, clientStuckMs: number): Promise<void> {
  if (res.destroyed || !res.writableNeedDrain) return Promise.resolve()
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      res.off('drain', done)
      res.off('close', done)
      resolve()
    }
    const timer = setTimeout(() => res.destroy(), clientStuckMs)
    res.on('drain', done)
    res.on('close', done)
  })
}

/** Closes the connection once what was written has gone out, without the chunk that ends a body. */
function breakOff(res: ServerResponse, clientStuckMs: number): void {
  const { socket } = res
  if (socket === null) {
    res.destroy()
    return
  }
  const timer = setTimeout(() => socket.destroy(), clientStuckMs)
  socket.once('close', () => clearTimeout(timer))
  socket.destroySoon()
}

/** Node refuses to send some headers that upstreams send: those are dropped. */
export function sendable(headers: ReturnedHeaders): Record<string, string | string[]> {
  const sent = Object.entries(headers).filter(([name, value]) => [value].flat().every((each) => isSendable(name, each)))
  return Object.fromEntries(sent.map(([name, value]) => [name, typeof value === 'string' ? value : [...value]]))
}

function isSendable(name: string, value: string): boolean {
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    return true
  } catch {
    return false // Node refused it
  }
}
