/**
 * The hash chain of a journal. SQLite's own checks find neither a byte changed inside a row nor commits dropped from the
 * middle of its log; a chain over the events finds both. Hashes are hexadecimal here, and bytes in what is hashed.
 */
import { hash } from 'node:crypto'

export const CHAIN_START = '0'.repeat(64)

export type Link = { readonly seq: number; readonly epoch: number; readonly type: string; readonly body: string }

export function chainHash(before: string, link: Link): string {
  // Lengths are part of the text, so that no two links can be written the same way.
  const text = `${link.seq} ${link.epoch} ${link.type} ${link.body.length}\n${link.body}`
  const fits = HASH_BYTES + text.length * UTF8_BYTES_MAX <= room.length
  const bytes = fits ? room : Buffer.allocUnsafe(HASH_BYTES + Buffer.byteLength(text))
  const size = bytes.write(before, 'hex') + bytes.write(text, HASH_BYTES)
  return hash('sha256', bytes.subarray(0, size), 'hex')
}

// ---- details ----

const HASH_BYTES = 32

/** Of one UTF-16 unit. */
const UTF8_BYTES_MAX = 3

/** Most events fit in here, and need no memory of their own. */
const room = Buffer.allocUnsafeSlow(64 * 1024)
