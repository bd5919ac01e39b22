/** Answers one DNS query of a box. Pure: bytes in, bytes out. */

export type Question = { readonly name: string; readonly type: number }

const TYPE_A = 1
const TTL_S = 60

/** Undefined if it is no query with one question. */
export function readQuestion(query: Buffer): (Question & { readonly end: number }) | undefined {
  if (query.length < 17 || (query.readUInt8(2) & 0xf8) !== 0 || query.readUInt16BE(4) !== 1) return undefined
  const labels: string[] = []
  let at = 12
  for (let length = query[at]; length !== 0; length = query[at]) {
    if (length === undefined || length > 63 || at + length + 1 >= query.length) return undefined
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += length + 1
  }
  if (at + 5 > query.length) return undefined
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 }
}

/** `address`: the name's address in the box; undefined: there is no such name. There are only A records, so nothing bypasses them. */
export function dnsAnswer(query: Buffer, address: string | undefined): Buffer | undefined {
  const question = readQuestion(query)
  if (question === undefined) return undefined
  const head = Buffer.from(query.subarray(0, question.end))
  const hasAnswer = address !== undefined && question.type === TYPE_A
  head[2] = 0x80 | ((head[2] ?? 0) & 0x01) // a response; whether recursion was wanted is repeated
  head[3] = address === undefined ? 0x83 : 0x80 // recursion available; NXDOMAIN
  head.writeUInt16BE(hasAnswer ? 1 : 0, 6)
  head.writeUInt32BE(0, 8)
  if (!hasAnswer) return head
  const record = Buffer.from([0xc0, 12, 0, TYPE_A, 0, 1, 0, 0, 0, TTL_S, 0, 4, ...address.split('.').map(Number)])
  return Buffer.concat([head, record])
}
