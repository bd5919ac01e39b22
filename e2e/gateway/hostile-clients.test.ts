/** The gateway under attack and under heavy load with failures. Seeded; each message contains the seed. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { answerFrames, role, text } from '../../test/kit/openai-frames.ts'
import {
  bytes,
  chunk,
  cut,
  half,
  head,
  json,
  type Play,
  reset,
  send,
  silence,
  stall,
  stream,
} from '../../test/kit/plays.ts'
import { assembledChat } from './assembled.ts'
import { isCutOff, chatBody, type Gateway, type Reply, Rig } from './rig.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

const SEED = 20261115

/** Numbers from 0 to 1, repeatable by seed. */
function dice(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
const descriptors = (gateway: Gateway): number => readdirSync(`/proc/${gateway.pid}/fd`).length

/** Opens a socket and sends a request for a streamed chat, without reading anything. */
async function asks(gateway: Gateway, name: string): Promise<Socket> {
  const socket = await gateway.socket()
  socket.on('error', () => socket.destroy()) // we end it in the middle
  socket.pause()
  const body = JSON.stringify(chatBody(name))
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  )
  return socket
}

describe('under load', LIMIT, () => {
  test('200 concurrent streams with random cuts: each is complete or reported as broken', async () => {
    await using rig = await Rig.start('--attempts-max', '6')
    const roll = dice(SEED)
    const words = Array.from({ length: 30 }, (_, index) => `word${index} `)
    const frames = answerFrames(...words)
    const plays = (): Play[] =>
      Array.from({ length: 6 }, () => {
        if (roll() < 0.5) return stream(...frames)
        const part = frames.slice(0, Math.floor(roll() * frames.length))
        const ways = [
          cut(...part),
          half(...part),
          stream(...part),
          reset,
          json(503, 'busy'),
          [head(), [part.join('').slice(0, Math.floor(roll() * 500))], reset],
        ]
        return ways[Math.floor(roll() * ways.length)] as Play
      })
    const replies = await Promise.all(Array.from({ length: 200 }, () => rig.chat(plays())))
    let good = 0
    for (const reply of replies) {
      const held = assembledChat(reply.frames)
      const told = reply.status >= 500 || isCutOff(reply)
      assert.ok(reply.whole || told, `seed ${SEED}: a cut connection without a reason`)
      if (!told) {
        assert.equal(held.content, words.join(''), `seed ${SEED}`)
        assert.equal(held.finish, 'stop', `seed ${SEED}`)
        good++
      } else assert.equal(words.join('').startsWith(held.content), true, `seed ${SEED}: ${held.content}`)
    }
    assert.ok(good >= 190, `seed ${SEED}: only ${good} of 200 were whole`)
  })

  test('300 abandoned requests leave no descriptor and no upstream request behind', async () => {
    await using rig = await Rig.start()
    const roll = dice(SEED)
    const leave = async (): Promise<void> => {
      const name = rig.upstream.plays(roll() < 0.5 ? stall(role, text('One')) : silence)
      const socket = await asks(rig.gateway, name)
      await rig.upstream.arrived(name)
      if (roll() < 0.5) socket.resetAndDestroy()
      else socket.destroy()
    }
    await Promise.all(Array.from({ length: 50 }, leave))
    await eventually('no upstream request', () => rig.upstream.open === 0)
    const before = descriptors(rig.gateway)
    for (let round = 0; round < 5; round++) await Promise.all(Array.from({ length: 50 }, leave))
    await eventually('no upstream request', () => rig.upstream.open === 0)
    await eventually(
      `no more than ${before} descriptors, not ${descriptors(rig.gateway)}`,
      () => descriptors(rig.gateway) <= before + 5,
    )
  })

  test('clients that do not read slow their upstream down, and each takes at most 4 MiB', async () => {
    await using rig = await Rig.startMeasured()
    await rig.chat([stream(...answerFrames('warm'))])
    const before = await rig.gateway.usedMib()
    const sent: number[] = []
    // Hardly any text: text that went out is remembered, and how much goes out depends on the kernel's buffers.
    const piece = chunk(text('z', { padding: 'z'.repeat(64 * 1024) }))
    const flood = (index: number): Play => [
      head(),
      [role],
      async ({ socket }) => {
        // 128 MiB: more than all buffers of any kernel between them.
        for (sent[index] = 0; sent[index] < 2_000 && !socket.destroyed; sent[index]++) await send(socket, piece)
      },
    ]
    const sockets: Socket[] = []
    for (let index = 0; index < 20; index++) sockets.push(await asks(rig.gateway, rig.upstream.plays(flood(index))))
    let last = -1
    let still = 0
    await eventually('the floods stand still', () => {
      const now = sent.reduce((sum, one) => sum + one, 0)
      still = sent.length === 20 && now === last ? still + 1 : 0
      last = now
      return still === 10
    })
    assert.ok(last < 20 * 2_000, 'the upstream was never slowed down')
    const grown = (await rig.gateway.usedMib()) - before
    assert.ok(grown < 20 * 4, `${grown} MiB for 20 clients that do not read`)
    for (const socket of sockets) socket.destroy()
    await eventually('the floods are over', () => rig.upstream.open === 0)
  })

  test('recovering from a break at the end of a long answer takes no longer than reading it again', async () => {
    await using rig = await Rig.start('--attempts-max', '2')
    const words = Array.from({ length: 50_000 }, () => text('word')).join('')
    const reply = await rig.chat([half(role, words), stream(role, words, ...answerFrames(' end').slice(1))])
    assert.equal(assembledChat(reply.frames).content, `${'word'.repeat(50_000)} end`)
    assert.equal(reply.tries, 2)
  })

  test('an answer of 200 MiB is not kept in memory', async () => {
    await using rig = await Rig.startMeasured()
    await rig.chat([stream(...answerFrames('warm'))])
    const before = await rig.gateway.usedMib()
    const piece = chunk(text('z'.repeat(256 * 1024)))
    const long: Play = async ({ socket }) => {
      for (let sent = 0; sent < 800 && !socket.destroyed; sent++) await send(socket, piece)
    }
    const { promise: measured, resolve: goOn } = Promise.withResolvers<void>()
    const ending = [answerFrames().slice(1), bytes('0\r\n\r\n')]
    const name = rig.upstream.plays([head(), [role], long, () => measured, ending])
    let got = 0
    let grown = Number.NaN
    for await (const part of await rig.gateway.open('/v1/chat/completions', { body: chatBody(name) })) {
      got += (part as Buffer).length
      if (got < 200 * 1024 * 1024 || !Number.isNaN(grown)) continue
      grown = (await rig.gateway.usedMib()) - before // before its end, which would free what is kept
      goOn()
    }
    assert.ok(grown < 50, `${grown} MiB`)
  })

  test('a few kilobytes that decompress to millions of values, four at once, take less than 512 MiB', async () => {
    await using rig = await Rig.start()
    const bomb = gzipSync(`{"model":"m","a":[${'{},'.repeat(8_000_000)}{}]}`)
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`
    const asks = Array.from({ length: 4 }, () => rig.gateway.raw(Buffer.concat([Buffer.from(head), bomb])))
    for (const said of await Promise.all(asks)) assert.match(said, /^HTTP\/1\.1 [45]\d\d /)
    const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${rig.gateway.pid}/status`, 'utf8'))?.[1]
    assert.ok(Number(peak) < 512 * 1024, `${peak} KiB`)
  })

  test('--hold answer: a client that leaves frees what was held', async () => {
    await using rig = await Rig.startMeasured('--hold', 'answer')
    await rig.chat([stream(...answerFrames('warm'))])
    const before = await rig.gateway.usedMib()
    const piece = text('z'.repeat(1024 * 1024))
    let sent = 0
    const much = stall(role, ...Array.from({ length: 7 }, () => piece), () => void sent++)
    for (let round = 0; round < 2; round++) {
      const names = Array.from({ length: 4 }, () => rig.upstream.plays(much))
      const sockets = await Promise.all(names.map((name) => asks(rig.gateway, name)))
      await eventually('sent', () => sent === 4 * (round + 1))
      for (const socket of sockets) socket.destroy()
      await eventually('left', () => rig.upstream.open === 0)
    }
    await eventually('freed', async () => (await rig.gateway.usedMib()) - before < (2 * 4 * 7) / 2)
  })
})

describe('malformed requests', { ...LIMIT, concurrency: true }, () => {
  const bad: Record<string, string> = {
    'headers of 100 KiB': `GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`,
    '5,000 headers': `GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n${'x: y\r\n'.repeat(5_000)}\r\n`,
    'a path of 100 KiB': `GET /v1/${'y'.repeat(100_000)} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`,
    'no HTTP': '\x16\x03\x01\x02\x00\x01\x00\r\n\r\n',
    'no Host': 'GET /v1/models HTTP/1.1\r\n\r\n',
    'two lengths':
      'POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n{}',
    'a length and chunks':
      'POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    CONNECT: 'CONNECT 127.0.0.1:22 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n',
    'an upgrade':
      'GET /v1/realtime HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n\r\n',
  }
  let rig: Rig
  test('malformed requests are refused, and the gateway keeps running', async () => {
    rig = await Rig.start()
    await using _ = rig
    for (const [what, request] of Object.entries(bad)) {
      const socket = await rig.gateway.socket()
      socket.on('error', () => socket.destroy())
      socket.write(request)
      const said = await Promise.race([
        once(socket, 'data').then(([bytes]) => String(bytes)),
        once(socket, 'close').then(() => 'closed'),
      ])
      assert.match(said, /^(HTTP\/1\.1 (4\d\d|501)|closed)/, `${what}: ${said}`)
      socket.destroy()
    }
    assert.equal(assembledChat((await rig.chat([stream(...answerFrames('alive'))])).frames).content, 'alive')
  })

  test('300 connections that send a byte and wait do not block others', async () => {
    await using own = await Rig.start()
    const sockets = await Promise.all(Array.from({ length: 300 }, () => own.gateway.socket()))
    for (const socket of sockets) {
      socket.on('error', () => socket.destroy())
      socket.write('POST /v1/chat')
    }
    assert.equal(assembledChat((await own.chat([stream(...answerFrames('alive'))])).frames).content, 'alive')
    for (const socket of sockets) socket.destroy()
  })

  test('beyond 1,024 concurrent requests the rest get 429 with a time, and none hangs', async () => {
    await using own = await Rig.start()
    const name = own.upstream.plays(...Array.from({ length: 1_100 }, () => silence))
    const sockets = await Promise.all(Array.from({ length: 1_024 }, () => asks(own.gateway, name)))
    await own.upstream.arrived(name, 1_024)
    const refused: Reply = await own.gateway.chat(name)
    assert.equal(refused.status, 429, refused.text)
    assert.ok(refused.headers['retry-after'])
    for (const socket of sockets) socket.destroy()
    await eventually('room again', () => own.upstream.open === 0)
    assert.equal(assembledChat((await own.chat([stream(...answerFrames('alive'))])).frames).content, 'alive')
  })
})
