/** What a request sends: its headers and its body, which may be a list of chunks. */
import { Readable } from 'node:stream'
import type { AttemptRequest } from './attempt.ts'

type Payload = { readonly headers: Record<string, string>; readonly body: string | Buffer | Readable | null }

export const payloadOf = ({ headers, body, method }: AttemptRequest): Payload =>
  method === 'GET' ? { headers, body: null } : payload(headers, body)

export function payload(headers: Record<string, string>, body: AttemptRequest['body']): Payload {
  if (typeof body === 'string' || Buffer.isBuffer(body)) return { headers, body }
  const [first = '', ...more] = body
  if (more.length === 0) return { headers, body: first }
  // The chunks have a length together: some servers refuse a body of unknown length.
  const length = body.reduce((bytes, chunk) => bytes + chunk.length, 0)
  return { headers: { ...headers, 'content-length': String(length) }, body: Readable.from(body) }
}
