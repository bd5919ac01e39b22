/** Claude on Bedrock: Anthropic's events in AWS's binary frames, which are written and read here from AWS's description. */
import { crc32 } from 'node:zlib'
import { anthropic } from './anthropic.ts'
import type { Api } from './api.ts'
import type { Frame } from './case.ts'
import { objectIn, parsed, textIn } from './json.ts'

export const bedrock: Api = {
  ...anthropic,
  name: 'bedrock-messages',
  shape: 'aws',
  request: (dice, answer) => {
    const { model: _model, stream: _stream, ...body } = anthropic.request(dice, answer).body
    const path = '/model/anthropic.claude-v1%3A0/invoke-with-response-stream'
    return { path, body: { anthropic_version: 'bedrock-2023-05-31', ...body } }
  },
}

/** An error is an exception, everything else a chunk. */
export function awsFrame({ data }: Frame): Buffer {
  const json = parsed(data)
  const { type, message } = objectIn(json, 'error')
  if (textIn(json, 'type') === 'error')
    return framed(
      ['exception', type === 'overloaded_error' ? 'serviceUnavailableException' : 'internalServerException'],
      { message },
    )
  return framed(['event', 'chunk'], { bytes: Buffer.from(data).toString('base64'), p: 'abcdefgh' })
}

/** The frames of a body up to the cut; undefined if one of them is not right. */
export function awsFramesIn(body: Buffer): readonly Frame[] | undefined {
  const found: Frame[] = []
  for (let rest = body; rest.length >= 16 && rest.length >= rest.readUInt32BE(0);) {
    const frame = rest.subarray(0, rest.readUInt32BE(0))
    const headersEnd = 12 + frame.readUInt32BE(4)
    const isRight =
      frame.readUInt32BE(8) === crc32(frame.subarray(0, 8)) &&
      frame.readUInt32BE(frame.length - 4) === crc32(frame.subarray(0, -4))
    if (!isRight) return undefined
    const payload = parsed(frame.toString('utf8', headersEnd, frame.length - 4))
    if (frame.subarray(12, headersEnd).includes('exception'))
      found.push({ event: 'error', data: JSON.stringify({ type: 'error', error: payload }) })
    else {
      const data = Buffer.from(textIn(payload, 'bytes'), 'base64').toString()
      found.push({ event: textIn(parsed(data), 'type'), data })
    }
    rest = rest.subarray(frame.length)
  }
  return found
}

// ---- details ----

function framed([message, kind]: readonly [message: string, kind: string], payload: object): Buffer {
  const headers = Object.entries({
    [`:${message}-type`]: kind,
    ':content-type': 'application/json',
    ':message-type': message,
  }).map(([name, value]) =>
    Buffer.concat([Buffer.of(name.length), Buffer.from(name), Buffer.of(7, 0, value.length), Buffer.from(value)]),
  )
  const [head, body] = [Buffer.concat(headers), Buffer.from(JSON.stringify(payload))]
  const prelude = Buffer.alloc(8)
  prelude.writeUInt32BE(16 + head.length + body.length, 0)
  prelude.writeUInt32BE(head.length, 4)
  const start = Buffer.concat([prelude, sum(prelude), head, body])
  return Buffer.concat([start, sum(start)])
}

function sum(bytes: Buffer): Buffer {
  const out = Buffer.alloc(4)
  out.writeUInt32BE(crc32(bytes), 0)
  return out
}
