/**
 * A client's request body as it arrives: held as bytes, decompressed if the client compressed it (codex sends zstd, others gzip), and
 * read only as far as the relay needs. It is forwarded as bytes, so most of it is never parsed.
 *
 * I1  Everything that is held is taken from the request's share before it is made: what was sent, what it decompresses to, the fields.
 * I2  However many requests come at once, few are decompressed at once.
 */
import { Readable, type Transform, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import { Fault, isFault } from '@breakfall/faults'
import { Semaphore } from '@breakfall/faults/internal'
import { isObject, type JsonObject, objectsIn, parsedOr } from '../lib/json.ts'
import { type FieldLimits, type FoundFields, JsonFields, type Place } from '../lib/json-fields.ts'
import { between, spliced } from '../lib/spliced.ts'
import { HeldBytes, type MemoryShare, taking, unboundedShare } from '@breakfall/wire/node'

/** A JSON object as bytes, with the places of the fields that may be changed on their way. */
export type RequestBody = {
  readonly blocks: readonly Buffer[]
  readonly places: ReadonlyMap<string, Place>
  readonly end: FoundFields['end']
}

/** The fields that the relay reads. All others go to the server unread. */
export type RequestFields = Readonly<Partial<Record<keyof typeof READ, unknown>>>

export type JsonBody = {
  readonly json: RequestFields
  readonly body: RequestBody
  /** The request's headers, without an encoding that no longer applies. */
  readonly headers: Readonly<Record<string, string>>
}

export type ReceivedBody = {
  /** As the client sent it. */
  readonly sent: readonly Buffer[]
  readonly model: string | undefined
  /** Undefined if nobody asked for it, or if it is no JSON object: then the server says what is wrong with it. */
  readonly read: JsonBody | undefined
}

export type ReceiveOptions = {
  readonly headers: Readonly<Record<string, string>>
  /** Of what was sent, and of what it decompresses to. */
  readonly bytesMax: number
  readonly memory: MemoryShare
  /** What it is read for: to be healed, or only to name the model in the log. */
  readonly look: 'fields' | 'model' | 'nothing'
}

/** Throws `payload_too_large` if the body or a field of it is over its limit, and `quota_exceeded` if the memory for all is used up. */
export async function receiveBody(
  chunks: AsyncIterable<Buffer> | Iterable<Buffer>,
  options: ReceiveOptions,
): Promise<ReceivedBody> {
  const { headers, bytesMax, memory, look } = options
  if (Number(headers['content-length'] ?? 0) > bytesMax) throw bodyTooLarge(bytesMax)
  const { 'content-encoding': encoding = '', ...plainHeaders } = headers
  const encodings = encodingsIn(encoding)
  const into = new Receiving(bytesMax, memory, encodings?.length === 0 ? look : 'nothing')
  for await (const chunk of chunks) into.add(chunk)
  const sent = into.blocks()
  if (look !== 'fields' || encodings === undefined) return { sent, model: into.found()?.model, read: undefined }
  if (encodings.length === 0) return { sent, ...readOf(into.found(), sent, headers) }
  const body = await DECODING.run(() => decompressed(sent, encodings, options)) // I2
  if (body === undefined) return { sent, model: undefined, read: undefined }
  memory.give(into.memory)
  const blocks = body.blocks()
  return { sent: blocks, ...readOf(body.found(), blocks, plainHeaders) }
}

/** The same object with other values for these fields, and these values at the end of its list `messages`. */
export function withChanges(body: RequestBody, fields: JsonObject, messages: readonly unknown[]): readonly Buffer[] {
  const { blocks, places, end } = body
  const changes: { readonly from: number; readonly to: number; readonly text: string }[] = []
  let added = ''
  const set = (name: string, value: unknown): void => {
    const place = places.get(name)
    if (place === undefined) added += `,${JSON.stringify(name)}:${JSON.stringify(value)}`
    else changes.push({ from: place.from, to: place.to, text: JSON.stringify(value) })
  }
  for (const [name, value] of Object.entries(fields)) set(name, value)
  const { listEnd, isEmpty = true } = places.get('messages') ?? {}
  if (messages.length > 0 && listEnd !== undefined) {
    const text = JSON.stringify(messages).slice(1, -1)
    changes.push({ from: listEnd, to: listEnd, text: isEmpty ? text : `,${text}` })
  } else if (messages.length > 0) set('messages', messages)
  changes.push({ from: end.to, to: end.to, text: end.isEmpty ? added.slice(1) : added })
  return spliced(
    blocks,
    changes.map(({ from, to, text: json }) => ({ from, to, bytes: Buffer.from(json) })),
  )
}

/** The same for other bytes, such as those of a repaired request. Undefined if they are not one object. */
export function placedBody(blocks: readonly Buffer[]): RequestBody | undefined {
  const fields = new JsonFields(new Map([['model', PLACE], ...Object.entries(CHANGED)]), unboundedShare())
  for (const block of blocks) fields.push(block)
  const found = fields.done()
  return found === undefined ? undefined : { blocks, places: found.places, end: found.end }
}

const PARSED_BYTES_MAX = 4 * 1024 * 1024 // a long conversation without images; 40 ms to parse

/** All of it, parsed. Undefined if that would take long, or if it is not JSON. */
export function parsedBody({ blocks }: RequestBody): JsonObject | undefined {
  if (blocks.reduce((bytes, block) => bytes + block.length, 0) > PARSED_BYTES_MAX) return undefined
  const json = parsedOr(Buffer.concat(blocks).toString())
  return isObject(json) ? json : undefined
}

const ELEMENTS_BYTES_MAX = 256 * 1024 // a millisecond to parse

/** The last elements of the conversation, parsed. Fewer if they are long. */
export function elementsOf({ blocks, places }: RequestBody, count: number): readonly JsonObject[] {
  const place = ['messages', 'contents', 'input']
    .map((name) => places.get(name))
    .find((one) => one?.listEnd !== undefined)
  if (place?.listEnd === undefined || place.isEmpty) return []
  const { from, listEnd, marks } = place
  const starts = marks.length < count ? [from + 1, ...marks.map((mark) => mark + 1)] : marks.map((mark) => mark + 1)
  const start = starts.slice(-count).find((one) => listEnd - one <= ELEMENTS_BYTES_MAX)
  if (start === undefined) return []
  const list = parsedOr(`[${Buffer.concat(between(blocks, start, listEnd)).toString()}]`)
  return objectsIn(list)
}

// ---- details ----

const TOOLS: FieldLimits = { bytesMax: 4 * 1024 * 1024, valuesMax: 100_000 } // hundreds of MCP servers; 50 ms to parse
const CONFIG = TOOLS // holds a schema of the answer
const SCALAR: FieldLimits = { bytesMax: 1024 }
const PLACE: FieldLimits = {}
const TURNS: FieldLimits = { marksMax: 128 }

const READ = {
  model: SCALAR,
  stream: SCALAR,
  n: SCALAR,
  max_tokens: SCALAR,
  max_completion_tokens: SCALAR,
  max_output_tokens: SCALAR,
  generationConfig: CONFIG,
  generation_config: CONFIG,
  background: SCALAR,
  stream_options: SCALAR,
  tools: TOOLS,
  functions: TOOLS,
  anthropic_version: SCALAR,
} as const satisfies Record<string, FieldLimits>
const CHANGED = { messages: TURNS, continue_final_message: PLACE, add_generation_prompt: PLACE } as const

const FIELDS: ReadonlyMap<string, FieldLimits> = new Map(
  Object.entries({ ...READ, ...CHANGED, contents: TURNS, input: TURNS }),
)
const MODEL: ReadonlyMap<string, FieldLimits> = new Map([['model', SCALAR]])

const JOINED_BYTES_MAX = 1024 * 1024 // one block is sent faster than several, and joining larger ones would take long

type Found = Pick<FoundFields, 'values' | 'places' | 'end'> & { readonly model: string | undefined }

/** A body that arrives: held, bounded and looked through. */
class Receiving {
  readonly #bytesMax: number
  readonly #share: MemoryShare
  readonly #held: HeldBytes
  readonly #look: ReceiveOptions['look']
  readonly #fields: JsonFields | undefined
  /** What its blocks take of the share. */
  memory = 0

  constructor(bytesMax: number, memory: MemoryShare, look: ReceiveOptions['look']) {
    this.#bytesMax = bytesMax
    this.#share = memory
    this.#look = look
    this.#held = new HeldBytes(taking(memory)) // I1
    this.#fields = look === 'nothing' ? undefined : new JsonFields(look === 'fields' ? FIELDS : MODEL, memory)
  }

  add(chunk: Buffer): void {
    if (this.#held.length + chunk.length > this.#bytesMax) throw bodyTooLarge(this.#bytesMax)
    this.#held.add(chunk)
    this.#fields?.push(chunk)
  }

  blocks(): readonly Buffer[] {
    const blocks = this.#held.blocks()
    const { length, memory } = this.#held
    this.memory = memory
    if (blocks.length < 2 || length > JOINED_BYTES_MAX || !this.#share.take(length)) return blocks
    this.#share.give(memory)
    this.memory = length
    return [Buffer.concat(blocks, length)]
  }

  found(): Found | undefined {
    const found = this.#fields?.done()
    if (found === undefined) return undefined
    const [name] = found.tooLarge
    if (name !== undefined && this.#look === 'fields') throw fieldTooLarge(name)
    const { model } = found.values
    return { ...found, model: typeof model === 'string' ? model : undefined }
  }

  /** It is of no use: what it holds is free again. */
  drop(): void {
    this.#share.give(this.#held.memory)
  }
}

function readOf(
  found: Found | undefined,
  blocks: readonly Buffer[],
  headers: JsonBody['headers'],
): Pick<ReceivedBody, 'model' | 'read'> {
  if (found === undefined) return { model: undefined, read: undefined }
  const { values: json, places, end, model } = found
  return { model, read: { json, body: { blocks, places, end }, headers } }
}

// ---- decompressing ----

type Decoder = { readonly create: () => Transform; readonly bytes: number }

const CHUNK = { chunkSize: 64 * 1024 }
const WINDOW_LOG_MAX = 24 // 16 MiB, as for br; zstd itself would allow a client to make it 128
const SMALL = 128 * 1024
const LARGE = 20 * 1024 * 1024

const gzip: Decoder = { create: () => createGunzip(CHUNK), bytes: SMALL }
const zstdParams = { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG_MAX }

/** With what they hold themselves at most. */
const DECODERS: Readonly<Record<string, Decoder>> = {
  gzip,
  'x-gzip': gzip,
  deflate: { create: () => createInflate(CHUNK), bytes: SMALL },
  br: { create: () => createBrotliDecompress(CHUNK), bytes: LARGE },
  zstd: { create: () => createZstdDecompress({ ...CHUNK, params: zstdParams }), bytes: LARGE },
}

const ENCODINGS_MAX = 2 // each may multiply what comes by a thousand

/** In the order in which they were applied. Undefined if there is one that we do not know, or too many. */
function encodingsIn(header: string): readonly Decoder[] | undefined {
  const names = header.toLowerCase().split(/[\s,]+/).filter((name) => name !== '' && name !== 'identity') // prettier-ignore
  const known = names.flatMap((name) => (Object.hasOwn(DECODERS, name) ? (DECODERS[name] ?? []) : []))
  return known.length === names.length && known.length <= ENCODINGS_MAX ? known : undefined
}

/** Undefined if it cannot be decompressed: it is passed on unchanged, for the server to refuse. */
async function decompressed(
  sent: readonly Buffer[],
  encodings: readonly Decoder[],
  { bytesMax, memory, look }: ReceiveOptions,
): Promise<Receiving | undefined> {
  const own = encodings.reduce((bytes, decoder) => bytes + decoder.bytes, 0)
  taking(memory)(own) // I1
  const into = new Receiving(bytesMax, memory, look)
  try {
    const stages = encodings.toReversed().map(({ create }) => create())
    const end = new Writable({
      write: (chunk: Buffer, _, done) => {
        try {
          into.add(chunk)
          done()
        } catch (thrown) {
          done(thrown instanceof Error ? thrown : new Error(String(thrown)))
        }
      },
    })
    await pipeline([Readable.from(sent), ...stages, end])
    return into
  } catch (thrown) {
    if (isFault(thrown)) throw thrown
    into.drop()
    return undefined
  } finally {
    memory.give(own)
  }
}

/** At most this many bodies are decoded in parallel. */
const DECODING = new Semaphore(4) // as many as Node has threads for

// ---- refusals ----

const bodyTooLarge = (bytesMax: number): Fault =>
  new Fault('payload_too_large', { facts: { limit: `at most ${bytesMax} bytes` } })

const fieldTooLarge = (name: string): Fault => {
  const { bytesMax = 0, valuesMax = 1 } = FIELDS.get(name) ?? {}
  return new Fault('payload_too_large', {
    facts: { limit: `the field "${name}" at most ${bytesMax} bytes and ${valuesMax} values` },
    errors: [{ field: name, expected: `at most ${bytesMax} bytes and ${valuesMax} values`, got: 'more' }],
  })
}
