/** Reads a request's JSON body, bounded, and checks it; each way to be wrong has its own answer. */
import type { IncomingMessage } from 'node:http'
import { Fault, isFault } from '@breakfall/faults'
import type { z } from 'zod'
import { invalidRequest, parseRequest } from '../parse.ts'

export const BODY_BYTES_MAX = 1024 * 1024

/** An empty body stands for `{}`, so that calls whose fields are all optional need none. */
export async function readJson<T>(req: IncomingMessage, schema: z.ZodType<T>, bytesMax = BODY_BYTES_MAX): Promise<T> {
  const bytes = await readBytes(req, bytesMax)
  if (bytes.length === 0) return parseRequest(schema, {})
  const type = (req.headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? ''
  if (type !== 'application/json') {
    throw new Fault('unsupported_media_type', {
      facts: { limit: 'application/json' },
      errorRaw: `content-type: ${type || 'none'}`,
    })
  }
  return parseRequest(schema, parseJson(bytes))
}

export async function readBytes(req: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const announced = Number(req.headers['content-length'] ?? 0)
  if (announced > bytesMax) throw tooLarge(bytesMax)
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of req as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > bytesMax) throw tooLarge(bytesMax)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}

// ---- details ----

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes), refuseLostNames)
  } catch (cause) {
    if (isFault(cause)) throw cause
    throw new Fault('invalid_request', {
      facts: { name: 'the body is not JSON' },
      errors: [{ field: '', expected: 'JSON in UTF-8', got: `${bytes.length} bytes` }],
      cause,
    })
  }
}

/** Objects are rebuilt while they are checked, and this one name would be lost on the way without a word. */
function refuseLostNames(key: string, value: unknown): unknown {
  if (key === '__proto__')
    throw invalidRequest([{ field: '__proto__', expected: 'no field of that name', got: JSON.stringify(value) ?? '' }])
  return value
}

const tooLarge = (bytesMax: number): Fault =>
  new Fault('payload_too_large', { facts: { limit: `at most ${bytesMax} bytes` } })
