/** Frames as bytes, in every form that server-sent events allow, and bytes as frames: a reader of its own, written from the standard. */
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib'
import { awsFrame } from './bedrock.ts'
import type { Frame, Style } from './case.ts'

/** The body before compression, and where each frame begins in it. */
export function encoded(
  frames: readonly Frame[],
  style: Style,
): { readonly bytes: Buffer; readonly starts: readonly number[] } {
  const starts: number[] = []
  const parts: Buffer[] = style.bom && style.shape === undefined ? [Buffer.from('\uFEFF')] : []
  let size = parts[0]?.length ?? 0
  for (const [at, frame] of frames.entries()) {
    if (style.shape !== undefined) {
      const bytes = style.shape === 'aws' ? awsFrame(frame) : Buffer.from(`${frame.data}\n`)
      starts.push(size)
      parts.push(bytes)
      size += bytes.length
      continue
    }
    const end = style.lineEnd === 'mixed' ? (MIXED[at % MIXED.length] ?? '\n') : style.lineEnd
    const lines: string[] = []
    for (const { before, line } of style.extras)
      if (before === at) lines.push(line, ...(line.startsWith(':') ? [''] : [])) // a comment stands for itself, an id belongs to the event
    if (frame.event !== undefined) lines.push(`event:${style.space}${frame.event}`)
    for (const line of written(frame.data, style).split('\n')) lines.push(`data:${style.space}${line}`)
    const bytes = Buffer.from([...lines, '', ''].join(end))
    starts.push(size)
    parts.push(bytes)
    size += bytes.length
  }
  return { bytes: Buffer.concat(parts), starts }
}

/** The same line end within one event: CR before LF would be one. */
const MIXED = ['\n', '\r\n', '\r', '\n'] as const

function written(data: string, { json }: Style): string {
  if (json === 'compact' || !data.startsWith('{')) return data
  if (json === 'lines') return JSON.stringify(JSON.parse(data), undefined, 1)
  return data.replaceAll(
    /[\u0080-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

export function compressed(bytes: Buffer, { encoding }: Style): Buffer {
  switch (encoding) {
    case '':
      return bytes
    case 'gzip':
      return gzipSync(bytes)
    case 'deflate':
      return deflateSync(bytes)
    case 'br':
      return brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } })
  }
}

/** The writes of a body: as many as the style says, the rest at once. */
export function writesOf(bytes: Buffer, style: Style, starts: readonly number[]): readonly Buffer[] {
  const ends =
    style.writes === 'frames'
      ? [...starts.slice(1), bytes.length]
      : style.writes.reduce<number[]>((sum, size) => [...sum, (sum.at(-1) ?? 0) + size], [])
  const out: Buffer[] = []
  let from = 0
  for (const end of [...ends, bytes.length]) {
    const to = Math.min(end, bytes.length)
    if (to > from) out.push(bytes.subarray(from, to))
    from = Math.max(from, to)
  }
  return out
}

/** What an event stream holds. An event without its empty line never came. */
export function framesIn(bytes: Buffer): { readonly frames: readonly Frame[]; readonly comments: readonly string[] } {
  const text = bytes.toString('utf8').replace(/^\uFEFF/, '')
  const lines = text.split(/\r\n|\n|\r/)
  const [frames, comments]: [Frame[], string[]] = [[], []]
  let [event, data]: [string | undefined, string[]] = [undefined, []]
  for (const line of lines.slice(0, -1)) {
    if (line === '') {
      if (data.length > 0) frames.push({ ...(event === undefined ? {} : { event }), data: data.join('\n') })
      ;[event, data] = [undefined, []]
      continue
    }
    const [, field = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
    if (field === '') comments.push(value)
    else if (field === 'event') event = value
    else if (field === 'data') data.push(value)
  }
  return { frames, comments }
}
