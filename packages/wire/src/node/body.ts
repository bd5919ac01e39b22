/** Reads and checks a request's JSON body, bounded; each kind of mistake gets its own response. */
import type { IncomingMessage } from 'node:http'
import { Fault, isFault } from '@breakfall/faults'
import type { z } from 'zod'
import { invalidRequest, parseRequest } from '../parse.ts'
import { HeldBytes } from './held-bytes.ts'
import { type MemoryShare, taking } from './memory-budget.ts'

export const BODY_BYTES_MAX = 1024 * 1024
const BODY_MS = 60_000 // a mebibyte over the slowest usable connection

/** An empty body means `{}`: calls whose fields are all optional need none. */
export async function readJson<T>(
  { req, memory }: { readonly req: IncomingMessage; readonly memory: MemoryShare },
  schema: z.ZodType<T>,
  bytesMax = BODY_BYTES_MAX,
  withinMs = BODY_MS,
): Promise<T> {
  const bytes = await readBytes(req, memory, bytesMax, withinMs)
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

/** A large body as it arrives. Gives up if the client sends nothing for `silenceMs` while we wait for it. */
export function bodyChunks(req: IncomingMessage, silenceMs = BODY_MS): AsyncGenerator<Buffer, void, undefined> {
  return chunksOf(req, () => silenceMs, silenceMs)
}

// ---- details ----

/** The whole body, which must arrive in time. */
async function readBytes(
  req: IncomingMessage,
  memory: MemoryShare,
  bytesMax: number,
  withinMs: number,
): Promise<Buffer> {
  const announced = Number(req.headers['content-length'] ?? 0)
  if (announced > bytesMax) throw tooLarge(bytesMax)
  const held = new HeldBytes(taking(memory))
  const until = performance.now() + withinMs
  for await (const chunk of chunksOf(req, () => until - performance.now(), withinMs)) {
    if (held.length + chunk.length > bytesMax) throw tooLarge(bytesMax)
    held.add(chunk)
  }
  taking(memory)(held.length)
  return Buffer.concat(held.blocks(), held.length)
}

/**
 * Node hands over every chunk of a chunked body on its own, and a client may send chunks of one byte. So what came at once is read at once,
 * after all of it was parsed.
 */
async function* chunksOf(
  req: IncomingMessage,
  leftMs: () => number,
  limitMs: number,
): AsyncGenerator<Buffer, void, undefined> {
  let arrived = (): void => undefined
  let ended = (): void => undefined
  const onReadable = (): void => arrived()
  const onEnd = (): void => ended()
  req.on('readable', onReadable)
  for (const name of ENDS) req.on(name, onEnd)
  try {
    for (;;) {
      const chunk = req.read() as Buffer | null
      if (chunk !== null) yield chunk
      else if (req.readableEnded) return
      else if (req.destroyed) throw req.errored ?? brokenOff()
      else
        await new Promise<void>((resolve, reject) => {
          const timer = setTimeout(() => reject(tooSlow(limitMs)), Math.max(0, leftMs()))
          ended = () => {
            clearTimeout(timer)
            resolve()
          }
          arrived = () => {
            arrived = () => undefined // it is called for every chunk
            clearTimeout(timer)
            setImmediate(resolve)
          }
        })
    }
  } finally {
    req.off('readable', onReadable)
    for (const name of ENDS) req.off(name, onEnd)
  }
}

const ENDS = ['end', 'error', 'close'] as const

const brokenOff = (): Error =>
  Object.assign(new Error('the client closed the connection'), { code: 'ERR_STREAM_PREMATURE_CLOSE' })

const tooSlow = (limitMs: number): Fault =>
  new Fault('invalid_request', {
    error: `the rest of the body did not arrive within ${limitMs / 1000} s.`,
    errorRaw: `body incomplete after ${limitMs} ms`,
  })

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

/** Parsing rebuilds objects, and this one key would be lost silently. */
function refuseLostNames(key: string, value: unknown): unknown {
  if (key === '__proto__')
    throw invalidRequest([{ field: '__proto__', expected: 'no field of that name', got: JSON.stringify(value) ?? '' }])
  return value
}

const tooLarge = (bytesMax: number): Fault =>
  new Fault('payload_too_large', { facts: { limit: `at most ${bytesMax} bytes` } })
