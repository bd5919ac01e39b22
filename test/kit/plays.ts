/**
 * What a fake model server does with one request, step by step. A string or a buffer is sent as one chunk of a chunked body;
 * a function does anything else; lists nest. `[head(), text('Hel'), reset]` starts an answer and resets the connection.
 */
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Exchange } from './exchange.ts'

/** If it returns a play, that is performed next. */
export type Act = (exchange: Exchange) => Play | void | Promise<Play | void>
export type Play = string | Buffer | Act | readonly Play[]

/** Performs a play on the exchange's socket, until its end or until the client has left. */
export async function perform(play: Play, exchange: Exchange): Promise<void> {
  if (exchange.socket.destroyed) return
  if (typeof play === 'function') await perform((await play(exchange)) ?? [], exchange)
  else if (typeof play === 'string' || Buffer.isBuffer(play)) await send(exchange.socket, chunk(play))
  else for (const step of play) await perform(step, exchange)
}

// ---- bytes ----

/** Sends these bytes without any framing. */
export const bytes =
  (...pieces: readonly (string | Buffer)[]): Act =>
  async ({ socket }) => {
    for (const piece of pieces) await send(socket, piece)
  }

/** One chunk of a chunked body. */
export function chunk(piece: string | Buffer): Buffer {
  const payload = Buffer.isBuffer(piece) ? piece : Buffer.from(piece)
  return Buffer.concat([Buffer.from(`${payload.length.toString(16)}\r\n`), payload, Buffer.from('\r\n')])
}

/** Writes, and waits until the kernel has accepted it: a slow reader holds the play back. */
export async function send(socket: Socket, piece: string | Buffer): Promise<void> {
  if (socket.destroyed || !socket.writable) return
  await new Promise<void>((resolve) => {
    socket.write(piece, () => resolve())
  })
}

export function headerLines(headers: Readonly<Record<string, string>>): string {
  return Object.entries(headers)
    .flatMap(([name, value]) => (value === '' ? [] : [`${name}: ${value}\r\n`]))
    .join('')
}

// ---- heads and whole answers ----

/** The head of an event stream. A header with an empty value is left out. */
export const head = (status = 200, headers: Readonly<Record<string, string>> = {}): Act =>
  bytes(
    `HTTP/1.1 ${status} Whatever\r\n${headerLines({ 'content-type': 'text/event-stream', 'transfer-encoding': 'chunked', ...headers })}\r\n`,
  )

/** The proper end of a chunked body. It does not prove that the answer is complete. */
export const lastChunk: Act = bytes('0\r\n\r\n')

/** An answer with a `content-length`. */
export function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): readonly Play[] {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const all = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)), ...headers }
  return [bytes(`HTTP/1.1 ${status} Whatever\r\n${headerLines(all)}\r\n${text}`)]
}

/** A whole event stream, properly ended. Whether its frames prove a complete answer is up to the frames. */
export const stream = (...frames: readonly Play[]): readonly Play[] => [head(), ...frames, lastChunk]
/** An event stream whose connection is reset after these frames. */
export const cut = (...frames: readonly Play[]): readonly Play[] => [head(), ...frames, reset]
/** An event stream whose connection closes without the last chunk. */
export const half = (...frames: readonly Play[]): readonly Play[] => [head(), ...frames, fin]
/** An event stream that goes silent after these frames. */
export const stall = (...frames: readonly Play[]): readonly Play[] => [head(), ...frames, silence]

// ---- misbehaviour ----

/** Resets the connection. What was sent before still arrives: Linux hands out queued bytes first, other kernels need a moment. */
export const reset: Act = async ({ socket }) => {
  if (process.platform !== 'linux') await sleep(10)
  await new Promise((resolve) => setImmediate(resolve))
  socket.resetAndDestroy()
}

/** Closes the connection. */
export const fin: Act = ({ socket }) => void socket.end()

/** Sends nothing more until the client leaves. */
export const silence: Act = ({ gone }) => gone

/** Waits. Only for servers whose slowness is the point. */
export const pause =
  (ms: number): Act =>
  () =>
    sleep(ms)

/** Repeats a step until the client leaves. */
export const forever =
  (play: Play, everyMs: number): Act =>
  async (exchange) => {
    while (!exchange.socket.destroyed && exchange.socket.writable) {
      await perform(play, exchange)
      await Promise.race([sleep(everyMs), exchange.gone])
    }
  }
