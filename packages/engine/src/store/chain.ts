/**
 * The hash chain of a journal. SQLite's own checks miss a byte changed inside a row and commits dropped from the middle of its
 * log; a chain over the events finds both. Hashes are hexadecimal here.
 */
import { hash } from 'node:crypto'

export const CHAIN_START = '0'.repeat(64)

type Link = { readonly seq: number; readonly epoch: number; readonly type: string; readonly body: string }

export const chainHash = (before: string, link: Link): string => hash('sha256', `${before} ${textOf(link)}`, 'hex')

/** Whether an event is unchanged. Schema 1 hashed over the bytes of the preceding hash. */
export const isLink = (before: string, link: Link, its: string): boolean =>
  its === chainHash(before, link) ||
  its === hash('sha256', Buffer.concat([Buffer.from(before, 'hex'), Buffer.from(textOf(link))]), 'hex')

// ---- details ----

/** Includes the length: no two links produce the same text. */
const textOf = ({ seq, epoch, type, body }: Link): string => `${seq} ${epoch} ${type} ${body.length}\n${body}`
