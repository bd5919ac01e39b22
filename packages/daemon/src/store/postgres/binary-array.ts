/**
 * Arrays in PostgreSQL's binary format. As text, every quote is escaped here and every character is looked at there, which costs the
 * server a fifth of an append. Pure.
 *
 * I1  What does not fit the type is refused with the code that the server would give: one bad value fails its own append only.
 */
import type { Parameters } from './parameters.ts'
import { isUuid } from './values.ts'

export const uuids = <R>(to: Parameters, rows: readonly R[], pick: (row: R) => string): void =>
  fixed(to, UUID, UUID_BYTES, rows, (bytes, at, row) => bytes.set(uuidBytes(pick(row)), at))

export const ints = <R>(to: Parameters, rows: readonly R[], pick: (row: R) => number): void =>
  fixed(to, INT4, 4, rows, (bytes, at, row) => writeInt(bytes, intIn(pick(row)), at))

/** Whole numbers that JavaScript can tell apart. */
export const bigints = <R>(to: Parameters, rows: readonly R[], pick: (row: R) => number): void =>
  fixed(to, INT8, 8, rows, (bytes, at, row) => writeBigint(bytes, pick(row), at))

export const texts = <R>(to: Parameters, rows: readonly R[], pick: (row: R) => string): void =>
  varying(to, TEXT, rows, pick, textBytes, (bytes, at, text) => bytes.write(text, at))

/** Hexadecimal here. */
export const byteas = <R>(to: Parameters, rows: readonly R[], pick: (row: R) => string): void =>
  varying(to, BYTEA, rows, pick, (hex) => hex.length / 2, writeHex)

// ---- reading one element again ----

/** Where a UUID is in an array of them. Undefined if it is not. */
export function indexOfUuid(from: Buffer, id: string): number | undefined {
  if (!isUuid(id)) return undefined
  const wanted = uuidBytes(id)
  for (let index = 0, at = HEAD_BYTES + 4; at < from.length; index += 1, at += 4 + UUID_BYTES)
    if (from.compare(wanted, 0, UUID_BYTES, at, at + UUID_BYTES) === 0) return index
  return undefined
}

export const uuidAt = (from: Buffer, index: number): string =>
  hexAt(from, index).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')

export const hexAt = (from: Buffer, index: number): string => elementAt(from, index).toString('hex')

export const textAt = (from: Buffer, index: number): string => elementAt(from, index).toString()

export const intAt = (from: Buffer, index: number): number => elementAt(from, index).readInt32BE()

export const bigintAt = (from: Buffer, index: number): number => Number(elementAt(from, index).readBigInt64BE())

// ---- details ----

function elementAt(from: Buffer, index: number): Buffer {
  let at = HEAD_BYTES
  for (let before = 0; before < index; before += 1) at += 4 + from.readInt32BE(at)
  return from.subarray(at + 4, at + 4 + from.readInt32BE(at))
}

const UUID_BYTES = 16
const [BYTEA, INT8, INT4, TEXT, UUID] = [17, 20, 23, 25, 2950]

const HEAD_BYTES = 20 // dimensions, whether there are NULLs, the element's type, how many there are, the first index

function fixed<R>(
  to: Parameters,
  type: number,
  size: number,
  rows: readonly R[],
  write: (bytes: Buffer, at: number, row: R) => void,
): void {
  const { bytes, at: start } = added(to, type, rows.length, rows.length * size)
  let at = start
  for (const row of rows) {
    writeInt(bytes, size, at)
    write(bytes, at + 4, row)
    at += 4 + size
  }
}

/** `write` returns how many bytes it has written. */
function varying<R>(
  to: Parameters,
  type: number,
  rows: readonly R[],
  pick: (row: R) => string,
  sizeOf: (value: string) => number,
  write: (bytes: Buffer, at: number, value: string) => number,
): void {
  let size = 0
  for (const row of rows) size += sizeOf(pick(row))
  const { bytes, at: start } = added(to, type, rows.length, size)
  let at = start
  for (const row of rows) {
    const written = write(bytes, at + 4, pick(row))
    writeInt(bytes, written, at)
    at += 4 + written
  }
}

/** Room for an array of so many elements, with its head. `at`: where the first element starts. */
function added(to: Parameters, type: number, count: number, size: number): { bytes: Buffer; at: number } {
  const { bytes, at: start } = to.add(HEAD_BYTES + count * 4 + size)
  let at = start
  for (const field of [1, 0, type, count, 1]) {
    writeInt(bytes, field, at)
    at += 4
  }
  return { bytes, at }
}

/** The same sessions and turns come again and again. */
const knownUuids = new Map<string, Uint8Array>()
const KNOWN_MAX = 10_000

function uuidBytes(value: string): Uint8Array {
  const known = knownUuids.get(value)
  if (known !== undefined) return known
  if (!isUuid(value)) throw refused('22P02', `${value} is no UUID`)
  const bytes = new Uint8Array(Buffer.from(value.replaceAll('-', ''), 'hex'))
  if (knownUuids.size >= KNOWN_MAX) knownUuids.clear()
  knownUuids.set(value, bytes)
  return bytes
}

function intIn(value: number): number {
  if ((value | 0) !== value) throw refused('22003', `${value} is no int`)
  return value
}

const textBytes = (text: string): number => Buffer.byteLength(text)

/** I1 */
const refused = (code: string, message: string): Error => Object.assign(new Error(message), { code })

function writeInt(to: Buffer, value: number, at: number): void {
  to[at] = value >>> 24
  to[at + 1] = value >>> 16
  to[at + 2] = value >>> 8
  to[at + 3] = value
}

function writeBigint(to: Buffer, value: number, at: number): void {
  writeInt(to, Math.floor(value / 2 ** 32), at)
  writeInt(to, value >>> 0, at + 4)
}

/** A loop: for so few digits, Node's own decoder takes longer to be called than to decode. */
function writeHex(to: Buffer, at: number, hex: string): number {
  for (let digit = 0, byte = at; digit < hex.length; digit += 2, byte += 1)
    to[byte] = ((DIGITS[hex.charCodeAt(digit)] ?? 0) << 4) | (DIGITS[hex.charCodeAt(digit + 1)] ?? 0)
  return hex.length / 2
}

/** The value of each hexadecimal digit, by its character. */
const DIGITS = new Uint8Array(0x80)
for (let value = 0; value < 16; value += 1) DIGITS[value.toString(16).charCodeAt(0)] = value
