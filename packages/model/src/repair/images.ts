/** Which images of a request are over the limit that a server named. Pure. */

/** The text that stands for an image that is too large; undefined if the image may stay. */
export type ImageLimit = { readonly textFor: (base64: string) => string | undefined }

export function oversizedImages(texts: readonly string[]): ImageLimit | undefined {
  const text = texts.find((one) => /image/i.test(one) && /exceeds? max|exceeds \d/i.test(one)) ?? ''
  const bytesMax = Number(/> (\d{4,12}) bytes/.exec(text)?.[1] ?? Number.POSITIVE_INFINITY)
  const sideMax = Number(/: (\d{3,6}) pixels/.exec(text)?.[1] ?? Number.POSITIVE_INFINITY)
  if (bytesMax === Number.POSITIVE_INFINITY && sideMax === Number.POSITIVE_INFINITY) return undefined
  return {
    textFor: (base64) => {
      const size = sizeOf(base64)
      const isOver = base64.length > bytesMax || (size !== undefined && Math.max(size.width, size.height) > sideMax)
      const shape = size === undefined ? '' : `${size.width}x${size.height}, `
      return isOver
        ? `[An image (${shape}${base64.length} bytes) was left out: it is over the provider's limit.]`
        : undefined
    },
  }
}

// ---- details ----

type Size = { readonly width: number; readonly height: number }

const HEAD_CHARS = 512 * 1024 // a JPEG may have hundreds of kilobytes of metadata before its size

/** Read from the header of a PNG, GIF, WebP or JPEG. */
export function sizeOf(base64: string): Size | undefined {
  const head = Buffer.from(base64.slice(0, HEAD_CHARS), 'base64')
  const kind = head.toString('latin1', 0, 16)
  if (kind.startsWith('\u0089PNG') && head.length >= 24)
    return { width: head.readUInt32BE(16), height: head.readUInt32BE(20) }
  if (kind.startsWith('GIF8') && head.length >= 10) return { width: head.readUInt16LE(6), height: head.readUInt16LE(8) }
  if (kind.startsWith('RIFF') && kind.startsWith('WEBP', 8) && head.length >= 30) return webpSize(head)
  return kind.startsWith('\u00ff\u00d8') ? jpegSize(head) : undefined
}

function webpSize(head: Buffer): Size | undefined {
  switch (head.toString('latin1', 12, 16)) {
    case 'VP8 ':
      return { width: head.readUInt16LE(26) & 0x3fff, height: head.readUInt16LE(28) & 0x3fff }
    case 'VP8L': {
      const bits = head.readUInt32LE(21)
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
    }
    case 'VP8X':
      return { width: head.readUIntLE(24, 3) + 1, height: head.readUIntLE(27, 3) + 1 }
    default:
      return undefined
  }
}

/** In the first frame header. Other segments say how long they are. */
function jpegSize(head: Buffer): Size | undefined {
  for (let at = 2; at + 9 <= head.length; at += 2 + head.readUInt16BE(at + 2)) {
    const marker = head[at + 1] ?? 0
    if (head[at] !== 0xff) return undefined
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc
    if (isFrame) return { width: head.readUInt16BE(at + 7), height: head.readUInt16BE(at + 5) }
  }
  return undefined
}
