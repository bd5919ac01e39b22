/** Finds where bytes can be split without splitting a character. */

/**
 * How many bytes from the start form whole characters: an incomplete last character is left out. Does not check whether
 * the bytes are UTF-8 at all.
 */
export function wholeCharacters(bytes: Uint8Array): number {
  const { length } = bytes
  for (let back = 1; back <= Math.min(3, length); back += 1) {
    const byte = bytes[length - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue // a continuation byte: the first byte is further back
    return sequenceLength(byte) > back ? length - back : length
  }
  return length
}

function sequenceLength(first: number): number {
  if (first >= 0xf0 && first <= 0xf4) return 4
  if (first >= 0xe0 && first < 0xf0) return 3
  if (first >= 0xc2 && first < 0xe0) return 2
  return 1
}
