/**
 * A request's body as bytes. A long conversation sends the same messages in every step, so their bytes are made once: messages, and
 * blocks in them, that never change (frozen) are written together in chunks, and the next request sends the same chunks again.
 *
 * I1  The chunks joined are exactly what `JSON.stringify` writes for the body.
 * I2  Only the last, unfinished chunk of a conversation is written again. Its size is bounded, however long the conversation is.
 */
import { isObject, type JsonObject } from './json.ts'

export function bodyBytes(body: object): readonly Buffer[] {
  return chunksOf(piecesOf(body))
}

/** Returns the same frozen parts for the same frozen message, so their bytes are made once. */
export function oncePerMessage<M extends object, P extends object>(
  make: (message: M) => readonly P[],
): (message: M) => readonly P[] {
  const made = new WeakMap<M, readonly P[]>()
  return (message) => {
    const known = made.get(message)
    if (known !== undefined) return known
    const parts = make(message)
    if (!Object.isFrozen(message)) return parts // it may change
    for (const part of parts) Object.freeze(part)
    made.set(message, parts)
    return parts
  }
}

// ---- details, in the order they are used above ----

/** JSON text, or a value that never changes and whose JSON belongs here. */
type Piece = string | JsonObject

/** What the APIs call the list of messages. */
const CONVERSATION: ReadonlySet<string> = new Set(['messages', 'input'])

function piecesOf(body: object): readonly Piece[] {
  const pieces: Piece[] = []
  let before = '{'
  for (const [name, value] of Object.entries(body) as readonly [string, unknown][]) {
    const field = `${before}${JSON.stringify(name)}:`
    if (CONVERSATION.has(name) && Array.isArray(value)) {
      pieces.push(field)
      addList(pieces, value)
    } else {
      const json: string | undefined = JSON.stringify(value)
      if (json === undefined) continue
      pieces.push(field + json)
    }
    before = ','
  }
  pieces.push(before === '{' ? '{}' : '}')
  return pieces
}

function addList(pieces: Piece[], list: readonly unknown[]): void {
  let before = '['
  for (const message of list) {
    pieces.push(before)
    addMessage(pieces, message)
    before = ','
  }
  pieces.push(before === '[' ? '[]' : ']')
}

function addMessage(pieces: Piece[], message: unknown): void {
  if (isFrozenObject(message)) {
    pieces.push(message)
    return
  }
  const blocks = joinedBlocks(message)
  if (blocks === undefined) {
    pieces.push(JSON.stringify(message) ?? 'null')
    return
  }
  pieces.push(`{"role":${JSON.stringify(blocks.role)},"content":`)
  addList(pieces, blocks.content)
  pieces.push('}')
}

/** The blocks of several messages, joined for this request. */
function joinedBlocks(message: unknown): { role: string; content: readonly unknown[] } | undefined {
  if (!isObject(message)) return undefined
  const { role, content, ...more } = message
  const isJoined = Array.isArray(content) && Object.keys(more).length === 0 && content.every(isFrozenObject)
  return isJoined && typeof role === 'string' && Object.keys(message)[0] === 'role' ? { role, content } : undefined
}

const isFrozenObject = (value: unknown): value is JsonObject => isObject(value) && Object.isFrozen(value)

const CHUNK_BYTES = 64 * 1024 // what a socket takes at once; the last chunk is rewritten at every step, so larger chunks cost more

/** A full chunk, with what it was made from. */
type Chunk = { readonly pieces: readonly Piece[]; readonly bytes: Buffer }

const LEAD_MAX = 8 // pieces from one unchanging value to the next: a message's end, the comma, the next message's beginning

/** By the first unchanging value in it. */
const CHUNKS = new WeakMap<JsonObject, Chunk>()

function chunksOf(pieces: readonly Piece[]): readonly Buffer[] {
  // The beginning stands alone: a new system prompt moves no chunk.
  const found = pieces.findIndex((piece) => typeof piece !== 'string')
  const start = found === -1 ? pieces.length : found
  const chunks: Buffer[] = [Buffer.from(pieces.slice(0, start).map(jsonOf).join(''))]
  for (let at = start; at < pieces.length;) {
    const { count, bytes } = chunkAt(pieces, at)
    chunks.push(bytes)
    at += count
  }
  return chunks
}

/** The chunk that starts here: the one of an earlier request, or a new one. The last one is rarely full. */
function chunkAt(pieces: readonly Piece[], at: number): { readonly count: number; readonly bytes: Buffer } {
  const first = pieces.slice(at, at + LEAD_MAX).find((piece) => typeof piece !== 'string')
  const known = first === undefined ? undefined : CHUNKS.get(first)
  if (known?.pieces.every((piece, index) => pieces[at + index] === piece) === true)
    return { count: known.pieces.length, bytes: known.bytes }
  let [json, end] = ['', at]
  for (; end < pieces.length && json.length < CHUNK_BYTES; end += 1) json += jsonOf(pieces[end] ?? '')
  const bytes = Buffer.from(json)
  if (first !== undefined && json.length >= CHUNK_BYTES) CHUNKS.set(first, { pieces: pieces.slice(at, end), bytes }) // I2
  return { count: end - at, bytes }
}

const jsonOf = (piece: Piece): string => (typeof piece === 'string' ? piece : (JSON.stringify(piece) ?? 'null'))
