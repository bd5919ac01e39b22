/**
 * Arrays in PostgreSQL's binary format. As text, every quote is escaped here and every character is looked at there, which costs the
 * server a fifth of an append. Pure.
 *
 * I1  What does not fit the type is refused with the code that the server would give: one bad value fails its own append only.
 */
import { isUuid } from './values.ts'

export const uuids = (values: readonly string[]): Buffer => array(UUID, values, uuidBytes, writeHex)

/** Hexadecimal here. */
export const byteas = (values: readonly string[]): Buffer => array(BYTEA, values, hexBytes, writeHex)

export const texts = (values: readonly string[]): Buffer => array(TEXT, values, textBytes, writeText)

export const ints = (values: readonly number[]): Buffer => array(INT4, values, intBytes, writeInt)

/** Whole numbers that JavaScript can tell apart. */
export const bigints = (values: readonly number[]): Buffer => array(INT8, values, () => 8, writeBigint)

// ---- details ----

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

function uuidBytes(value: string): number {
  if (!isUuid(value)) throw refused('22P02', `${value} is no UUID`)
  return 16
}

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

/** Dashes are skipped. A loop: for so few digits, Node's own decoder takes longer to be called than to decode. */
function writeHex(to: Buffer, hex: string, at: number): void {
  let [half, byte] = [0, at]
  let isSecond = false
  for (let index = 0; index < hex.length; index += 1) {
    const code = hex.charCodeAt(index)
    if (code === DASH) continue
    const digit = code <= NINE ? code - ZERO : (code | LOWER) - A + 10
    if (isSecond) to[byte++] = half | digit
    else half = digit << 4
    isSecond = !isSecond
  }
}

const [DASH, ZERO, NINE, A, LOWER] = [0x2d, 0x30, 0x39, 0x61, 0x20]
