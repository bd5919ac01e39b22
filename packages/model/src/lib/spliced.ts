/** Bytes in several blocks, with some of them replaced. All others are not copied. */
export type Splice = {
  readonly from: number
  readonly to: number
  /** What replaces them. */
  readonly bytes: Buffer
}

/** `splices` do not overlap. */
export function spliced(blocks: readonly Buffer[], splices: readonly Splice[]): readonly Buffer[] {
  const out: Buffer[] = []
  let at = 0
  for (const { from, to, bytes } of splices.toSorted((one, other) => one.from - other.from || one.to - other.to)) {
    out.push(...between(blocks, at, from))
    if (bytes.length > 0) out.push(bytes)
    at = to
  }
  out.push(...between(blocks, at, Number.POSITIVE_INFINITY))
  return out
}

export function between(blocks: readonly Buffer[], from: number, to: number): readonly Buffer[] {
  const out: Buffer[] = []
  let start = 0
  for (const block of blocks) {
    const part = block.subarray(Math.max(0, from - start), Math.max(0, to - start))
    if (part.length > 0) out.push(part)
    start += block.length
  }
  return out
}
