/** A client on a raw socket: what really came over the wire, and how it ended. */
import { connect } from 'node:net'

export type RawAnswer = {
  readonly text: string
  /** `end`: FIN; `reset`: RST; `open`: still open when we stopped reading. */
  readonly ending: 'end' | 'reset' | 'open'
  readonly error: string | null
}

/** Sends the bytes and collects the answer until the other side ends it, or until it matches `until`. */
export function rawRequest(port: number, request: string, until?: RegExp): Promise<RawAnswer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    const socket = connect(port, '127.0.0.1')
    const text = (): string => Buffer.concat(chunks).toString('latin1')
    const done = (ending: RawAnswer['ending'], error: string | null): void => {
      resolve({ text: text(), ending, error })
      socket.destroy()
    }
    socket.on('error', (error: NodeJS.ErrnoException) => done('reset', error.code ?? error.message))
    socket.on('end', () => done('end', null))
    socket.on('data', (bytes) => {
      chunks.push(bytes)
      if (until?.test(text())) done('open', null)
    })
    socket.write(request)
  })
}

export function post(path: string, body: unknown): string {
  const text = JSON.stringify(body)
  return `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
}

/** Splits headers and body, and joins the chunks. `isWhole`: the last chunk was there. */
export function dechunk(text: string): { readonly head: string; readonly body: string; readonly isWhole: boolean } {
  const [head = '', ...rest] = text.split('\r\n\r\n')
  let left = rest.join('\r\n\r\n')
  let body = ''
  for (;;) {
    const [, size] = /^([0-9a-f]+)\r\n/i.exec(left) ?? []
    if (size === undefined) return { head, body, isWhole: false }
    const length = Number.parseInt(size, 16)
    if (length === 0) return { head, body, isWhole: left.startsWith('0\r\n\r\n') }
    body += left.slice(size.length + 2, size.length + 2 + length)
    left = left.slice(size.length + 2 + length + 2)
  }
}
