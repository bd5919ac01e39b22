/** The name in the first message of a TLS client, however it is cut into records and packets. Pure. */

export type Hello =
  /** More bytes are needed. */
  | { readonly kind: 'partial' }
  | { readonly kind: 'hello'; readonly name: string | undefined }
  /** Not the start of TLS. */
  | { readonly kind: 'other' }

const PARTIAL: Hello = { kind: 'partial' }
const OTHER: Hello = { kind: 'other' }

const HANDSHAKE = 22
const CLIENT_HELLO = 1
const SERVER_NAME = 0

/** More records than any client makes of it: reading them again with each packet must cost nothing. */
const RECORDS_MAX = 1_024

export function readHello(bytes: Buffer): Hello {
  const message: Buffer[] = []
  let [length, needed] = [0, 0]
  for (let at = 0; message.length < RECORDS_MAX;) {
    if (bytes.length > at && bytes[at] !== HANDSHAKE) return OTHER
    if (bytes.length > at + 1 && bytes[at + 1] !== 3) return OTHER
    if (bytes.length < at + 5) return PARTIAL
    const size = bytes.readUInt16BE(at + 3)
    if (size === 0 || size > 16_384 + 256) return OTHER
    const part = bytes.subarray(at + 5, at + 5 + size)
    message.push(part)
    length += part.length
    if (message[0] !== undefined && message[0].length > 0 && message[0][0] !== CLIENT_HELLO) return OTHER
    if (needed === 0 && length >= 4) needed = 4 + Buffer.concat(message).readUIntBE(1, 3)
    if (needed > 0 && length >= needed) return nameIn(Buffer.concat(message).subarray(4, needed))
    if (part.length < size) return PARTIAL
    at += 5 + size
  }
  return OTHER
}

// ---- details ----

function nameIn(body: Buffer): Hello {
  try {
    let at = 34 // version and random
    at += 1 + body.readUInt8(at) // session
    at += 2 + body.readUInt16BE(at) // ciphers
    at += 1 + body.readUInt8(at) // compression
    if (at === body.length) return { kind: 'hello', name: undefined }
    const end = at + 2 + body.readUInt16BE(at)
    at += 2
    if (end > body.length) return OTHER
    let name: string | undefined
    while (at < end) {
      const [type, size] = [body.readUInt16BE(at), body.readUInt16BE(at + 2)]
      if (type === SERVER_NAME) {
        if (name !== undefined) return OTHER // twice: a server might read the other one
        name = serverName(body.subarray(at + 4, at + 4 + size))
        if (name === undefined) return OTHER
      }
      at += 4 + size
    }
    return at === end ? { kind: 'hello', name } : OTHER
  } catch {
    return OTHER // it says that it is longer than it is
  }
}

/** A list with exactly one entry of type host name. */
function serverName(list: Buffer): string | undefined {
  const size = list.readUInt16BE(3)
  if (list.readUInt16BE(0) !== list.length - 2 || list[2] !== 0 || size !== list.length - 5) return undefined
  return list.toString('latin1', 5).toLowerCase()
}
