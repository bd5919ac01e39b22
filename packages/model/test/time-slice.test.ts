import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { threadCpuMs } from '../src/lib/clock.ts'
import { startAttempt } from '../src/attempt/start-attempt.ts'

test('a stream whose events are costly to read lets the rest of the process have its turn after each read', async (t) => {
  const server = createServer((_, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: {}\n\n'.repeat(40_000))
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const readsOfTurns = [0]
  let isOver = false
  const turn = (): void => {
    readsOfTurns.push(0)
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  let frames = 0
  const reader = {
    progress: 0,
    frame: () => {
      frames++
      return 'more' as const
    },
    flush: () => {
      readsOfTurns[readsOfTurns.length - 1] = (readsOfTurns.at(-1) ?? 0) + 1
      for (const until = threadCpuMs() + 21; threadCpuMs() < until;);
    },
    whole: () => assert.fail('it is a stream'),
  }
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const clocks = { connectMs: 5_000, headersMs: 5_000, livenessMs: 5_000, progressMs: 60_000 }
  const { fault } = await startAttempt({ url, headers: {}, body: '{}' }, reader, clocks, new AbortController().signal)
    .end
  isOver = true
  assert.deepEqual([fault, frames], [undefined, 40_000])
  assert.equal(Math.max(...readsOfTurns), 1, `reads in a turn of the event loop: ${readsOfTurns.join(' ')}`)
})
