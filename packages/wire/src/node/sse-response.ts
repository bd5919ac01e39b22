/**
 * Server-sent events on a raw response. The writer knows how much the reader has not received yet: the producer can wait
 * (`drained`) or give up on the reader (`bufferedBytes`). Nothing is queued besides what the socket holds.
 */
import type { ServerResponse } from 'node:http'
import type { SseFrame } from '../sse-frame.ts'
import { encodeSse, encodeSseComment } from '../sse.ts'

export const SSE_HEARTBEAT_MS = 15_000

export class SseResponse {
  readonly #res: ServerResponse
  readonly #heartbeat: NodeJS.Timeout

  constructor(
    res: ServerResponse,
    options: { heartbeatMs?: number; status?: number; headers?: Readonly<Record<string, string>> } = {},
  ) {
    this.#res = res
    res.writeHead(options.status ?? 200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      ...options.headers,
    })
    res.flushHeaders()
    res.socket?.setNoDelay(true)
    this.#heartbeat = setInterval(() => this.comment('ping'), options.heartbeatMs ?? SSE_HEARTBEAT_MS)
    this.#heartbeat.unref()
    res.once('close', () => clearInterval(this.#heartbeat))
  }

  /** False if the reader is behind: wait for `drained` before the next event. */
  send(frame: SseFrame): boolean {
    return this.#write(encodeSse(frame))
  }

  comment(text: string): boolean {
    return this.#write(encodeSseComment(text))
  }

  /** Bytes written that the reader has not received. */
  get bufferedBytes(): number {
    return this.#res.writableLength
  }

  get isOpen(): boolean {
    return !this.#res.writableEnded && !this.#res.destroyed
  }

  /** Resolves when the socket has drained, or the reader is gone. */
  drained(): Promise<void> {
    if (!this.isOpen || !this.#res.writableNeedDrain) return Promise.resolve()
    return new Promise((resolve) => {
      const done = (): void => {
        this.#res.off('drain', done)
        this.#res.off('close', done)
        resolve()
      }
      this.#res.on('drain', done)
      this.#res.on('close', done)
    })
  }

  end(): void {
    clearInterval(this.#heartbeat)
    if (this.isOpen) this.#res.end()
  }

  #write(text: string): boolean {
    return this.isOpen && this.#res.write(text)
  }
}
