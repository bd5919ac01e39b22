/**
 * Splits a stream of server-sent events into blocks without changing a byte: joined again, the blocks are the stream.
 * (The decoder of `@breakfall/wire` returns the meaning; a fault proxy needs the exact bytes.)
 */

export type SseBlock = {
  readonly bytes: Buffer
  /** The `data:` lines joined; undefined for a comment, a ping or a bare line. */
  readonly data: string | undefined
  readonly event: string | undefined
}

export class SseBlocks {
  #rest: Buffer = Buffer.alloc(0)

  push(bytes: Uint8Array): SseBlock[] {
    const text = this.#rest.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#rest, bytes])
    const blocks: SseBlock[] = []
    let from = 0
    for (let end = blockEnd(text, from); end >= 0; end = blockEnd(text, from)) {
      blocks.push(parseBlock(text.subarray(from, end)))
      from = end
    }
    this.#rest = text.subarray(from)
    return blocks
  }

  /** The bytes after the last complete block. */
  rest(): Buffer {
    return this.#rest
  }
}

/** The same block with other data. */
export function withData(block: SseBlock, data: string): Buffer {
  const head = block.event === undefined ? '' : `event: ${block.event}\n`
  return Buffer.from(`${head}data: ${data}\n\n`)
}

// ---- details ----

const LF = 10
const CR = 13

/** The offset after the next empty line, or -1. A CR at the very end may be half of a CRLF, so it does not count yet. */
function blockEnd(text: Buffer, from: number): number {
  let lineStart = from
  for (let i = from; i < text.length; i += 1) {
    const byte = text[i]
    if (byte !== LF && byte !== CR) continue
    if (byte === CR && i + 1 === text.length) return -1
    const isEmptyLine = i === lineStart && i > from
    if (byte === CR && text[i + 1] === LF) i += 1
    if (isEmptyLine) return i + 1
    lineStart = i + 1
  }
  return -1
}

function parseBlock(bytes: Buffer): SseBlock {
  const data: string[] = []
  let event: string | undefined
  for (const line of bytes.toString('utf8').split(/\r\n|\r|\n/)) {
    const [, field, value = ''] = /^(data|event)(?:: ?(.*))?$/s.exec(line) ?? []
    if (field === 'data') data.push(value)
    if (field === 'event') event = value
  }
  return { bytes, data: data.length === 0 ? undefined : data.join('\n'), event }
}
