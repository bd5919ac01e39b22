/** What a message may take, before anything parses it. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { atEnd } from '../../../test/kit/folder.ts'
import { boundedFetch } from '../src/bounded-fetch.ts'
import { JsonLines } from '../src/json-lines.ts'
import { MessageMeter } from '../src/message-meter.ts'

const LIMITS = { messageBytesMax: 1_000, messageValuesMax: 10 }
const EVENTS = { 'content-type': 'text/event-stream' }

/** Byte by byte, as a hostile server could send it. */
function excessOf(text: string, isEvents = false): string | undefined {
  const meter = new MessageMeter(LIMITS, isEvents)
  for (const byte of Buffer.from(text)) {
    const excess = meter.add(Uint8Array.of(byte))
    if (excess !== undefined) return excess
  }
  return undefined
}

test('values count, commas in text do not, however the text is escaped or seems to begin', () => {
  const many = `[${'{},'.repeat(5)}1]`
  const text = String.raw`a,\\`
  const quoted = String.raw`\"${','.repeat(20)}`
  assert.equal(excessOf(many), 'more than 10 values')
  assert.equal(excessOf(`{"a":"${','.repeat(20)}"}`), undefined)
  assert.equal(excessOf(`{"a":"${quoted}"}`), undefined)
  assert.equal(excessOf(`{"a":"${text}","b":${many}}`), 'more than 10 values')
  assert.equal(excessOf(`: "\ndata: ${many}`, true), 'more than 10 values')
})

test('only a blank line ends an event, in each of its spellings', () => {
  const line = `data: ${'x'.repeat(100)}`
  for (const end of ['\n', '\r', '\r\n']) {
    assert.equal(excessOf(`${line}${end}`.repeat(20), true), 'more than 0 MiB', JSON.stringify(end))
    assert.equal(excessOf(`${line}${end}${end}`.repeat(20), true), undefined, JSON.stringify(end))
    assert.equal(excessOf(`${line}${end}${end}`.repeat(20)), 'more than 0 MiB', JSON.stringify(end))
  }
  assert.equal(excessOf(`:${'\n:'.repeat(20)}`, true), 'more than 10 values')
  assert.equal(excessOf(`1${'\n'.repeat(20)}`), undefined)
})

test('a line of too many values is reported and not parsed, and the next one is read', () => {
  const seen: string[] = []
  const lines = new JsonLines(LIMITS, {
    onMessage: (message) => seen.push(JSON.stringify(message)),
    onGarbage: (line) => seen.push(`garbage ${line}`),
    onTooLarge: (excess) => seen.push(excess),
  })
  const ping = '{"jsonrpc":"2.0","method":"ping"}'
  lines.push(Buffer.from(`{"jsonrpc":"2.0","method":"x","params":{"a":[${'1,'.repeat(20)}1]}}\n${ping}\n`))
  assert.deepEqual(seen, ['more than 10 values', ping])
})

test('an endless event, and an endless refusal or document that calls itself a stream, are cut off', async (t) => {
  const server = createServer(({ url }, res) => {
    res.writeHead(url === '/refusal' ? 400 : 200, EVENTS)
    const more = (): void => void res.write(url === '/event' ? 'data:\n'.repeat(100) : 'data:\n\n'.repeat(100), more)
    more()
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  for (const [path, accept] of [
    ['event', 'text/event-stream'],
    ['refusal', 'text/event-stream'],
    ['document', 'application/json'],
  ] as const) {
    const response = await boundedFetch(LIMITS)(`http://127.0.0.1:${port}/${path}`, { headers: { accept } })
    await assert.rejects(response.text(), /a message of more than/, path)
  }
})
