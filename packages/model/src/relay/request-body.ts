/**
 * A client's request body as JSON, decompressed if the client compressed it: codex sends zstd, others gzip.
 *
 * I1  However many requests come at once, few are decompressed at once: a few kilobytes can become as much as the limit allows.
 */
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate, zstdDecompress } from 'node:zlib'
import { isObject, type JsonObject } from '../json.ts'

export type JsonBody = {
  readonly json: JsonObject
  /** The JSON's own bytes. */
  readonly body: Buffer
  /** The request's headers, without an encoding that no longer applies. */
  readonly headers: Readonly<Record<string, string>>
}

/** Undefined if it is not a JSON object, or larger than the limit: then the server says what is wrong with it. */
export async function jsonBody(
  sent: Buffer,
  headers: Readonly<Record<string, string>>,
  bytesMax: number,
): Promise<JsonBody | undefined> {
  const { 'content-encoding': encoding = '', ...rest } = headers
  try {
    const body = encoding === '' ? sent : await DECODING.turn(() => decoded(sent, encoding, bytesMax)) // I1
    const json: unknown = JSON.parse(body.toString('utf8'))
    return isObject(json) ? { json, body, headers: body === sent ? headers : rest } : undefined
  } catch {
    return undefined // passed on unchanged, for the server to refuse
  }
}

// ---- details ----

const DECODERS = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
  zstd: promisify(zstdDecompress),
} as const

/** Several encodings are listed in the order in which they were applied. */
async function decoded(sent: Buffer, encoding: string, maxOutputLength: number): Promise<Buffer> {
  let body = sent
  const names = encoding.toLowerCase().split(/[\s,]+/)
  for (const name of names.toReversed()) {
    if (isKnown(name)) body = await DECODERS[name](body, { maxOutputLength })
  }
  return body
}

/** Lets so many work at the same time; the others wait for their turn. */
class Turns {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(atOnce: number) {
    this.#free = atOnce
  }

  async turn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free++
      else next()
    }
  }
}

const DECODING = new Turns(4) // as many as Node has threads for

const isKnown = (name: string): name is keyof typeof DECODERS => Object.hasOwn(DECODERS, name)
