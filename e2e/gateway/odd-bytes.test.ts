/** The same answers in unusual bytes: line endings, encodings, packets, connections, and answers that are not streamed. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { shared } from '../shared.ts'
import { startModelServer } from '../../test/kit/model-server.ts'
import { answerFrames, choice, done, finish, role, text } from '../../test/kit/openai-frames.ts'
import {
  bytes,
  chunk,
  cut,
  fin,
  half,
  head,
  headerLines,
  json,
  type Play,
  reset,
  send,
  silence,
  stream,
} from '../../test/kit/plays.ts'
import { assembledChat } from './assembled.ts'
import { chatBody, Gateway, Reading, Rig } from './rig.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const [rig, whole] = await Promise.all([
  shared(Rig.start('--attempts-max', '3', '--liveness-ms', '2000')),
  shared(Rig.start('--hold', 'answer', '--attempts-max', '3')),
])

const content = 'Zwölf Boxkämpfer — 拳击 🥊 end'
const frames = answerFrames('Zwölf Box', 'kämpfer — 拳击', ' 🥊 end').join('')
const last = '0\r\n\r\n'

describe('event streams in unusual bytes', { ...LIMIT, concurrency: true }, () => {
  const odd: Record<string, Play> = {
    'CRLF line ends': stream(frames.replaceAll('\n', '\r\n')),
    'CR line ends': stream(frames.replaceAll('\n', '\r')),
    'CRLF split between packets': stream(...frames.replaceAll('\n', '\r\n').split(/(?<=\r)/)),
    'a byte order mark': stream(`\uFEFF${frames}`),
    'comments and unknown fields': stream(
      frames.replaceAll('data:', ': still here\nretry: 5\nid: 7\nfoo: bar\nnocolon\ndata:'),
    ),
    'no space after the colon': stream(frames.replaceAll('data: ', 'data:')),
    'JSON over several data lines': stream(
      ...frames.split('\n\n').map((frame) => `${frame.replace('"choices":', '\ndata: "choices":\ndata:')}\n\n`),
    ),
    'one byte a packet': [
      head(),
      async ({ socket }) => {
        for (const byte of Buffer.from(frames)) {
          await send(socket, chunk(Buffer.from([byte])))
          if (byte > 127) await new Promise((resolve) => setImmediate(resolve))
        }
      },
      bytes(last),
    ],
    'all in one packet with the head': bytes(
      Buffer.concat([
        Buffer.from(`HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n`),
        chunk(frames),
        Buffer.from(last),
      ]),
    ),
    'a trailer': [head(200, { trailer: 'x-sum' }), [frames], bytes('0\r\nx-sum: 1\r\n\r\n')],
    'a chunk extension': [head(), bytes(`${Buffer.byteLength(frames).toString(16)};a=b\r\n${frames}\r\n${last}`)],
    'a length instead of chunks': json(200, frames, { 'content-type': 'text/event-stream' }),
    'HTTP/1.0 and an end': [bytes(`HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n${frames}`), fin],
    'HTTP/1.1 and an end': [
      bytes(`HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n${frames}`),
      fin,
    ],
    '103 Early Hints before it': [bytes('HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'), stream(frames)],
    'no content type': [bytes('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'), [frames], bytes(last)],
    'an odd content type': [
      bytes('HTTP/1.1 200 OK\r\ncontent-type: TEXT/Event-Stream;charset=UTF-8\r\ntransfer-encoding: chunked\r\n\r\n'),
      [frames],
      bytes(last),
    ],
  }
  function encoded(name: string, ...pieces: readonly Buffer[]): Play {
    return [head(200, { 'content-encoding': name }), [...pieces], bytes(last)]
  }
  for (const [what, play] of Object.entries(odd))
    test(what, async () => {
      const reply = await rig.chat([play])
      assert.equal(assembledChat(reply.frames).content, content, reply.text || `${reply.status}`)
      assert.equal(assembledChat(reply.frames).finish, 'stop')
      assert.equal(reply.frames.at(-1)?.data, '[DONE]')
      assert.equal(reply.headers['content-encoding'], undefined)
      assert.equal(reply.tries, 1)
    })
  const packed = {
    gzip: gzipSync(frames),
    deflate: deflateSync(frames),
    br: brotliCompressSync(frames),
    zstd: zstdCompressSync(frames),
  }
  for (const [name, payload] of Object.entries(packed))
    test(`an unrequested ${name} is understood from the second answer on`, async () => {
      const play = encoded(name, payload)
      const healed = await rig.chat([play, play])
      assert.equal(assembledChat(healed.frames).content, content, healed.text)
      const next = await rig.chat([play])
      assert.equal(assembledChat(next.frames).content, content, next.text)
      assert.equal(next.headers['content-encoding'], undefined)
      assert.equal(next.tries, 1)
    })
  test('an unknown compression is reported as a server error, and never taken for an answer', async () => {
    const play = encoded('lz77', gzipSync(frames))
    const healed = await rig.chat([play, stream(frames)])
    assert.equal(assembledChat(healed.frames).content, content, healed.text)
    const reply = await rig.chat([play, play, play])
    assert.equal(reply.status, 502, reply.text)
    assert.match(reply.json.error.message, /compressed its answer \(lz77\)/)
  })
  test('invalid UTF-8 does no harm', async () => {
    const bad = Buffer.from(text('a?b'))
    bad[bad.indexOf('?')] = 0xff
    const reply = await rig.chat([stream(role, bad, finish(), done)])
    assert.equal(assembledChat(reply.frames).content, 'a\uFFFDb')
  })
  test('10,000 small frames in one packet', async () => {
    const many = [role, ...Array.from({ length: 10_000 }, (_, index) => text(`${index} `)), finish(), done].join('')
    for (const one of [rig, whole]) {
      const reply = await one.chat([stream(many)])
      assert.equal(
        assembledChat(reply.frames).content,
        Array.from({ length: 10_000 }, (_, index) => `${index} `).join(''),
      )
      assert.equal(reply.frames.length, 10_003)
    }
  })
  test('a frame of 3 MiB', async () => {
    const huge = 'x'.repeat(3 * 1024 * 1024)
    const reply = await rig.chat([stream(...answerFrames(huge))])
    assert.equal(assembledChat(reply.frames).content.length, huge.length, reply.text.slice(0, 300))
  })
  test('an endless line does not grow without bound', async () => {
    const line = 'data: '.concat('x'.repeat(1024 * 1024))
    const endless: Play = [
      head(),
      async ({ socket }) => {
        for (let sent = 0; sent < 100 && !socket.destroyed; sent++) await send(socket, chunk(line))
      },
      fin,
    ]
    const reply = await rig.chat([endless, stream(frames)])
    assert.equal(assembledChat(reply.frames).content, content, reply.text.slice(0, 300))
  })
  test('each text arrives at once', async () => {
    const steps = Array.from({ length: 4 }, () => Promise.withResolvers<void>())
    const name = rig.upstream.plays([
      head(),
      [role],
      ...steps.map(({ promise }, index): Play => [text(`<${index}>`), () => promise]),
      [finish(), done],
      bytes(last),
    ])
    const reading = new Reading(await rig.gateway.open('/v1/chat/completions', { body: chatBody(name) }))
    for (const [index, { resolve }] of steps.entries()) {
      await reading.until((got) => got.includes(`<${index}>`))
      resolve()
    }
    await reading.until((got) => got.includes('[DONE]'))
  })
})

describe('--hold answer', { ...LIMIT, concurrency: true }, () => {
  test('beyond 16 MiB the answer is forwarded as it arrives', async () => {
    const piece = 'y'.repeat(1024 * 1024)
    const { promise, resolve } = Promise.withResolvers<void>()
    const name = whole.upstream.plays([
      head(),
      [role, ...Array.from({ length: 18 }, () => text(piece))],
      () => promise,
      [finish(), done],
      bytes(last),
    ])
    const response = await whole.gateway.open('/v1/chat/completions', { body: chatBody(name) })
    let got = 0
    let tail = ''
    for await (const part of response) {
      got += (part as Buffer).length
      tail = (tail + String(part)).slice(-20)
      if (got > 17 * 1024 * 1024) resolve()
    }
    assert.ok(got > 18 * 1024 * 1024)
    assert.match(tail, /\[DONE\]\n\n$/)
  })
  test('nothing of the answer appears before all of it is there', async () => {
    const name = whole.upstream.plays(cut(role, text('void')), stream(...answerFrames('good')))
    assert.equal((await whole.gateway.chat(name)).text.includes('void'), false)
  })
})

describe('answers that are not streamed', { ...LIMIT, concurrency: true }, () => {
  const body = {
    id: 'x',
    object: 'chat.completion',
    model: 'm',
    odd: 1,
    choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
    usage: { total_tokens: 3 },
  }
  const whole = JSON.stringify(body)
  const breaks: Record<string, Play> = {
    'a reset': reset,
    'a 503': json(503, 'busy'),
    'JSON cut in the middle of a length': [
      bytes(
        `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${whole.length}\r\n\r\n${whole.slice(0, 40)}`,
      ),
      fin,
    ],
    'JSON cut in the middle of chunks': [
      bytes(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`),
      [whole.slice(0, 40)],
      reset,
    ],
    'JSON that ends early, cleanly': json(200, whole.slice(0, 40)),
    'nothing at all, with status 200': json(200, ''),
    'an error inside a 200': json(200, {
      error: { message: 'overloaded', type: 'overloaded_error', code: 503 },
    }),
  }
  for (const [what, play] of Object.entries(breaks))
    test(`${what} is requested again`, async () => {
      const reply = await rig.chat([play, play, json(200, whole)], { stream: false })
      assert.equal(reply.status, 200, reply.text)
      assert.deepEqual(reply.json, body)
      assert.equal(reply.tries, 3)
    })
  test('a truncated tool call is requested again, and never forwarded', async () => {
    const call = (args: string, reason: string): object => ({
      ...body,
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: null,
            tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: args } }],
          },
          finish_reason: reason,
        },
      ],
    })
    const broken = [json(200, call('{"a"', 'tool_calls')), json(200, call('{"a"', 'length'))]
    const reply = await rig.chat([...broken, json(200, call('{"a":1}', 'tool_calls'))], { stream: false })
    assert.deepEqual(reply.json, call('{"a":1}', 'tool_calls'))
    const lost = await rig.chat([...broken, broken[0] as Play], { stream: false })
    assert.ok(lost.status >= 500, lost.text)
    assert.equal(lost.headers['x-should-retry'], 'false')
  })
  test('the same for messages', async () => {
    const good = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [{ type: 'text', text: 'hi' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 },
    }
    const reply = await rig.messages([reset, json(200, JSON.stringify(good).slice(0, 50)), json(200, good)], {
      stream: false,
    })
    assert.deepEqual(reply.json, good)
  })
  test('a server that streams without being asked is a clear error, not a hang', async () => {
    const play = stream(...answerFrames('hi'))
    const reply = await rig.chat([play, play, play], { stream: false })
    assert.equal(reply.status, 502, reply.text)
    assert.equal(reply.headers['x-should-retry'], 'false')
  })
  test('a server that does not stream although a stream was requested', async () => {
    const reply = await rig.chat([json(200, whole)])
    assert.equal(reply.status, 200)
    assert.ok(
      reply.json?.choices?.[0]?.message?.content === 'hi' || assembledChat(reply.frames).content === 'hi',
      reply.text,
    )
  })
})

describe('connections', { ...LIMIT, concurrency: true }, () => {
  test('a keep-alive connection that the upstream closes at the wrong moment does not fail the request', async () => {
    await using own = await Rig.start('--attempts-max', '2')
    for (let round = 0; round < 20; round++) {
      const reply = await own.chat([[stream(...answerFrames('hi')), fin], stream(...answerFrames('hi'))])
      assert.equal(assembledChat(reply.frames).content, 'hi', `round ${round}: ${reply.text}`)
    }
  })
  test('an upstream that answers before reading the body', async () => {
    await using early = await startModelServer([], { early: true })
    await using gateway = await Gateway.start(early, '--attempts-max', '2')
    const name = early.plays(json(413, { error: { message: 'too long' } }, { connection: 'close' }))
    const reply = await gateway.chat(name, { pad: 'x'.repeat(2_000_000) }, { 'x-name': name })
    assert.equal(reply.status, 413, reply.text)
    assert.deepEqual(reply.json, { error: { message: 'too long' } })
  })
  test('a redirect is not followed with the key', async () => {
    await using elsewhere = await startModelServer()
    const reply = await rig.chat([
      json(307, '', { location: `${elsewhere.url}/chat/completions` }),
      stream(...answerFrames('hi')),
    ])
    assert.equal(elsewhere.connections, 0)
    assert.ok(reply.status === 307 || reply.status >= 400, reply.text)
  })
  test('two consecutive requests on one client connection do not mix', async () => {
    const first = rig.upstream.plays(stream(...answerFrames('first')))
    const second = rig.upstream.plays(stream(...answerFrames('second')))
    const ask = (name: string, close: boolean): string => {
      const body = JSON.stringify(chatBody(name))
      return `POST /v1/chat/completions HTTP/1.1\r\n${headerLines({ host: '127.0.0.1', 'content-type': 'application/json', 'content-length': String(body.length), connection: close ? 'close' : 'keep-alive' })}\r\n${body}`
    }
    const said = await rig.gateway.raw(ask(first, false) + ask(second, true)) // pipelined
    assert.ok(said.indexOf('"first"') > 0 && said.indexOf('"second"') > said.indexOf('[DONE]'), said)
  })
  for (const phase of ['before the head', 'in the middle', 'in a backoff'] as const)
    test(`a client that leaves ${phase} closes the upstream request immediately`, async () => {
      await using own = await Rig.start(
        '--attempts-max',
        '4',
        ...(phase === 'in a backoff' ? ['--backoff-ms', '20000'] : []),
      )
      const plays: Record<typeof phase, Play> = {
        'before the head': silence,
        'in the middle': [head(), [role, text('One')], silence],
        'in a backoff': half(role),
      }
      const name = own.upstream.plays(plays[phase])
      const socket = await own.gateway.socket()
      const body = JSON.stringify(chatBody(name))
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      )
      const talk = await own.upstream.arrived(name)
      if (phase === 'in the middle') await once(socket, 'data')
      socket.resetAndDestroy()
      await talk.gone
      assert.equal(own.upstream.received(name).length, 1)
    })
  test('an upstream that starts late is reached', async () => {
    const probe = await startModelServer()
    const { port } = probe
    await probe[Symbol.asyncDispose]()
    await using gateway = await Gateway.start(
      [`http://127.0.0.1:${port}/v1`],
      '--backoff-ms',
      '200',
      '--attempts-max',
      '12',
    )
    const pending = gateway.chat('play-1')
    await using late = await startModelServer([], { port })
    late.plays(stream(...answerFrames('here')))
    assert.equal(assembledChat((await pending).frames).content, 'here')
  })
})

test('an answer without choices is requested again', LIMIT, async () => {
  const reply = await rig.chat([stream(done), stream(choice({}, { finish_reason: 'stop' }), done), stream(frames)])
  assert.ok(reply.tries >= 1)
  assert.equal(reply.frames.at(-1)?.data, '[DONE]')
})
