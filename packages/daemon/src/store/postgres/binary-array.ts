/**
 * Arrays in PostgreSQL's binary format. As text, every quote is escaped here and every character is looked at there, which costs the
 * server a fifth of an append. Pure.
 *
 * I1  What does not fit the type is refused with the code that the server would give: one bad value fails its own append only.
 */
import { isUuid } from './values.ts'

export const uuids = (values: readonly string[]): Buffer => array(UUID, values.map(uuidBytes), byteCount, writeBytes)

/** Hexadecimal here. */
export const byteas = (values: readonly string[]): Buffer => array(BYTEA, values, hexBytes, writeHex)

export const texts = (values: readonly string[]): Buffer => array(TEXT, values, textBytes, writeText)

export const ints = (values: readonly number[]): Buffer => array(INT4, values, intBytes, writeInt)

/** Whole numbers that JavaScript can tell apart. */
export const bigints = (values: readonly number[]): Buffer => array(INT8, values, () => 8, writeBigint)

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

function array<T>(
  type: number,
  values: readonly T[],
  bytesOf: (value: T) => number,
  write: (to: Buffer, value: T, at: number) => void,
): Buffer {
  const lengths = values.map(bytesOf)
  const to = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + 4 + length, HEAD_BYTES))
  for (const [index, field] of [1, 0, type, values.length, 1].entries()) writeInt(to, field, index * 4)
  let at = HEAD_BYTES
  for (const [index, value] of values.entries()) {
    const length = lengths[index] ?? 0
    writeInt(to, length, at)
    write(to, value, at + 4)
    at += 4 + length
  }
  return to
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

const byteCount = (bytes: Uint8Array): number => bytes.length

const writeBytes = (to: Buffer, bytes: Uint8Array, at: number): void => to.set(bytes, at)

function intBytes(value: number): number {
  if ((value | 0) !== value) throw refused('22003', `${value} is no int`)
  return 4
}

/** I1 */
const refused = (code: string, message: string): Error => Object.assign(new Error(message), { code })

const hexBytes = (hex: string): number => hex.length / 2

const textBytes = (text: string): number => Buffer.byteLength(text)

const writeText = (to: Buffer, value: string, at: number): void => void to.write(value, at, 'utf8')

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
function writeHex(to: Buffer, hex: string, at: number): void {
  for (let digit = 0, byte = at; digit < hex.length; digit += 2, byte += 1)
    to[byte] = ((DIGITS[hex.charCodeAt(digit)] ?? 0) << 4) | (DIGITS[hex.charCodeAt(digit + 1)] ?? 0)
}

/** The value of each hexadecimal digit, by its character. */
const DIGITS = new Uint8Array(0x80)
for (let value = 0; value < 16; value += 1) DIGITS[value.toString(16).charCodeAt(0)] = value
