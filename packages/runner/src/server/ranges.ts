/** Byte ranges: a single `Range: bytes=…`, as in RFC 9110. */
import { Fault } from '@breakfall/faults'
import type { RequestContext } from '@breakfall/wire/node'

export type ByteRange = { readonly from: number; /** Exclusive. */ readonly to: number }

/** The requested range. A 416 says how long the content is. */
export function rangeOf(call: Pick<RequestContext, 'req' | 'res'>, size: number): ByteRange | undefined {
  try {
    return parseRange(call.req.headers.range, size)
  } catch (error) {
    call.res.setHeader('content-range', `bytes */${size}`)
    throw error
  }
}

/** Undefined: everything. Several ranges, or another unit, get everything, as the RFC allows. */
export function parseRange(header: string | undefined, size: number): ByteRange | undefined {
  const found = /^bytes=(\d*)-(\d*)$/.exec(header ?? '')
  if (found === null) return undefined
  const [, first = '', last = ''] = found
  if (first === '' && last === '') return undefined
  const from = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const to = first === '' || last === '' ? size : Math.min(size, Number(last) + 1)
  if (from >= size || to <= from)
    throw new Fault('range_not_satisfiable', { facts: { limit: `it has ${size} bytes` }, errorRaw: `bytes */${size}` })
  return { from, to }
}

export function rangeHeaders(range: ByteRange | undefined, size: number): Record<string, string> {
  const length = range === undefined ? size : range.to - range.from
  return {
    'accept-ranges': 'bytes',
    'content-length': String(length),
    'content-type': 'application/octet-stream',
    ...(range === undefined ? {} : { 'content-range': `bytes ${range.from}-${range.to - 1}/${size}` }),
  }
}
