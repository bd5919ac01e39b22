/**
 * The hash chain of a journal. SQLite's own checks find neither a byte changed inside a row nor commits dropped from the
 * middle of its log; a chain over the events finds both.
 */
import { hash } from 'node:crypto'

export const CHAIN_START = Buffer.alloc(32)

export type Link = { readonly seq: number; readonly epoch: number; readonly type: string; readonly body: string }

export function chainHash(before: Uint8Array, link: Link): Buffer {
  // Lengths are part of the text, so that no two links can be written the same way.
  const text = `${link.seq} ${link.epoch} ${link.type} ${link.body.length}\n${link.body}`
  const bytes = Buffer.allocUnsafe(before.length + Buffer.byteLength(text))
  bytes.set(before)
  bytes.write(text, before.length)
  return hash('sha256', bytes, 'buffer')
}
