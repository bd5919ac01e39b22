/** An event stream that breaks in every way, read as one sequence. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { DaemonClient, type EventsOptions } from '../src/index.ts'
import { RECONNECT_POLICY } from '../src/limits.ts'
import { type Answer, FakeDaemon, frame, json, sse } from './fake-daemon.ts'

/** The numbers of the first events, up to `count`. */
async function seqs(answer: Answer, count: number, options: EventsOptions & { livenessMs?: number } = {}) {
  await using daemon = await FakeDaemon.start(answer)
  const client = new DaemonClient({ url: daemon.url, token: 'x' }, { ...QUICK, livenessMs: options.livenessMs })
  const seen: number[] = []
  for await (const event of client.events('s1', options)) if (seen.push(event.seq) === count) break
  return { seen, cursors: daemon.requests.map(({ headers }) => headers['last-event-id']) }
}

const QUICK = { random: () => 0, policy: { ...RECONNECT_POLICY, attemptsMax: 3 } }

test('a stream that breaks is continued at the cursor: no event is lost or repeated', async () => {
  const { seen, cursors } = await seqs((response, _request, index) => {
    sse(response)
    if (index === 0) response.write(frame(1) + frame(2), () => response.destroy())
    else response.write(frame(3) + frame(4))
  }, 4)
  assert.deepEqual(seen, [1, 2, 3, 4])
  assert.deepEqual(cursors, [undefined, 'j1-2'])
})

test('an event that was cut off is delivered once, by the next connection', async () => {
  const { seen, cursors } = await seqs((response, _request, index) => {
    sse(response)
    if (index === 0) response.write(frame(1) + frame(2).slice(0, -20), () => response.destroy())
    else response.write(frame(2) + frame(3))
  }, 3)
  assert.deepEqual(seen, [1, 2, 3])
  assert.deepEqual(cursors, [undefined, 'j1-1'])
})

test('an event that the daemon sends again is dropped', async () => {
  const { seen } = await seqs((response, _request, index) => {
    sse(response)
    if (index === 0) response.write(frame(1) + frame(2), () => response.destroy())
    else response.write(frame(1) + frame(2) + frame(3))
  }, 3)
  assert.deepEqual(seen, [1, 2, 3])
})

test('a cursor of another journal resets the sequence: onReset is called, and events follow from 1', async () => {
  const resets: string[] = []
  const { seen, cursors } = await seqs(
    (response) => {
      sse(response)
      response.write(`event: reset\ndata: {"reason":"another_journal"}\n\n${frame(1, 'j2')}${frame(2, 'j2')}`)
    },
    2,
    { after: 'j1-7', onReset: (reason) => void resets.push(reason) },
  )
  assert.deepEqual(resets, ['another_journal'])
  assert.deepEqual(seen, [1, 2])
  assert.deepEqual(cursors, ['j1-7'])
})

test('a stream that the daemon closes is reopened at the cursor', async () => {
  const { seen, cursors } = await seqs((response, _request, index) => {
    sse(response)
    if (index === 0) response.end(`${frame(1)}event: closed\ndata: {"reason":"slow_consumer"}\n\n`)
    else response.write(frame(2))
  }, 2)
  assert.deepEqual(seen, [1, 2])
  assert.deepEqual(cursors, [undefined, 'j1-1'])
})

test('heartbeats keep a silent stream open, and silence without them reconnects', async () => {
  const beats: NodeJS.Timeout[] = []
  const { seen, cursors } = await seqs(
    (response, _request, index) => {
      sse(response)
      response.write(frame(index + 1))
      if (index === 0) return // hangs
      const from = Date.now()
      const beat = setInterval(() => {
        response.write(': ping\n\n')
        if (Date.now() - from > 600) response.write(frame(3))
      }, 50)
      beats.push(beat)
    },
    3,
    { livenessMs: 300 },
  )
  for (const beat of beats) clearInterval(beat)
  assert.deepEqual(seen, [1, 2, 3])
  assert.deepEqual(cursors, [undefined, 'j1-1'])
})

test('an event type that only a newer daemon knows is skipped, and keeps its place', async () => {
  const { seen, cursors } = await seqs((response, _request, index) => {
    sse(response)
    const unknown = frame(2).replaceAll('text-delta', 'box-copied')
    if (index === 0) response.write(frame(1) + unknown, () => response.destroy())
    else response.write(frame(3))
  }, 2)
  assert.deepEqual(seen, [1, 3])
  assert.deepEqual(cursors, [undefined, 'j1-2'])
})

test('a gap in the numbers is a fault, not a silent loss', async () => {
  const reading = seqs((response) => {
    sse(response)
    response.write(frame(1) + frame(3))
  }, 3)
  await assert.rejects(reading, /expected number 2, received 3/)
})

test('an event without its fields is a fault that names the event', async () => {
  const reading = seqs((response) => {
    sse(response)
    response.write(frame(1).replace('"text":', '"words":'))
  }, 1)
  await assert.rejects(reading, /sent a text-delta event in a form that this client cannot read/)
})

test('abort ends the sequence without an error, while it waits for events and while it waits to reconnect', async () => {
  await using daemon = await FakeDaemon.start((response) => {
    sse(response)
    response.write(frame(1))
  })
  const stop = new AbortController()
  const seen: number[] = []
  for await (const { seq } of new DaemonClient({ url: daemon.url, token: 'x' }).events('s1', { signal: stop.signal })) {
    seen.push(seq)
    setTimeout(() => stop.abort(), 20)
  }
  assert.deepEqual(seen, [1])

  await using broken = await FakeDaemon.start((response) => void response.destroy())
  const gone = new DaemonClient({ url: broken.url, token: 'x' }, { random: () => 1 })
  const signal = AbortSignal.timeout(50)
  for await (const event of gone.events('s1', { signal })) assert.fail(String(event.seq))
})

test('by default a stream looks for its daemon forever, and gets every event once', async () => {
  let requests = 0
  await using daemon = await FakeDaemon.start((response) => {
    requests += 1
    if (requests % 50 !== 0) return void response.destroy()
    const event = { type: 'step-start', step: 1, seq: requests / 50, sessionId: 's1', turnId: 't', at: 'x' }
    sse(response)
    response.end(`id: j-${event.seq}\nevent: step-start\ndata: ${JSON.stringify(event)}\n\n`)
  })
  const client = new DaemonClient({ url: daemon.url, token: 'x' }, { sleep: () => Promise.resolve() })
  const seen: number[] = []
  for await (const { seq } of client.events('s1')) {
    seen.push(seq)
    if (seen.length === 2) break
  }
  assert.deepEqual(seen, [1, 2])
  assert.equal(requests, 100)
})

test('a daemon that stays away: onUnreachable is called once, then the fault says why retrying stopped', async () => {
  await using daemon = await FakeDaemon.start((response) => void response.destroy())
  const client = new DaemonClient({ url: daemon.url, token: 'x' }, QUICK)
  const told: string[] = []
  const reading = (async () => {
    for await (const event of client.events('s1', { onUnreachable: (url) => void told.push(url) })) assert.ok(event)
  })()
  await assert.rejects(reading, (error) => {
    assert.ok(isFault(error))
    assert.equal(error.category, 'daemon_unreachable')
    assert.equal(error.report.stopped, 'attempts_spent')
    return true
  })
  assert.deepEqual(told, [daemon.url])
  assert.equal(daemon.requests.length, 3)
})

test('a stream that closes again and again without an event is retried with delays, not in a tight loop', async () => {
  const delays: number[] = []
  await using daemon = await FakeDaemon.start((response) => {
    sse(response)
    response.end('event: closed\ndata: {"reason":"shutting_down"}\n\n')
  })
  const client = new DaemonClient(
    { url: daemon.url, token: 'x' },
    { ...QUICK, random: () => 1, sleep: async (ms) => void delays.push(ms) },
  )
  await assert.rejects(async () => {
    for await (const event of client.events('s1')) assert.ok(event)
  }, /closed the stream before the first event/)
  assert.deepEqual(delays, [250, 500])
})

test('a session that does not exist is not_found, and is not retried', async () => {
  await using daemon = await FakeDaemon.start((response) => json(response, 404, { nothing: 'here' }))
  const reading = new DaemonClient({ url: daemon.url, token: 'x' }, QUICK).events('s1').next()
  await assert.rejects(reading, (error) => isFault(error) && error.category === 'not_found')
  assert.equal(daemon.requests.length, 1)
})

test('a caller that stops reading closes the connection', async () => {
  const closed = Promise.withResolvers<void>()
  await using daemon = await FakeDaemon.start((response) => {
    sse(response)
    response.write(frame(1))
    response.on('close', closed.resolve)
  })
  for await (const event of new DaemonClient({ url: daemon.url, token: 'x' }).events('s1')) {
    assert.equal(event.seq, 1)
    break
  }
  await closed.promise
})

test('a stream that only says it is alive and closes is not reopened in a tight loop', async () => {
  const delays: number[] = []
  await using daemon = await FakeDaemon.start((response, _request, index) => {
    sse(response)
    if (index < 3) response.end(': ping\n\n')
    else response.write(frame(1))
  })
  const client = new DaemonClient(
    { url: daemon.url, token: 'x' },
    { random: () => 1, sleep: async (ms) => void delays.push(ms) },
  )
  assert.equal((await client.events('s1').next()).value?.seq, 1)
  assert.deepEqual(delays, [250, 250, 250])
})

test('a stream that breaks after a reset starts at the first event, not at the cursor of the other journal', async () => {
  const { seen, cursors } = await seqs(
    (response, _request, index) => {
      sse(response)
      if (index === 0) response.end('event: reset\ndata: {"reason":"rewound"}\n\n')
      else response.write(frame(1, 'j2') + frame(2, 'j2'))
    },
    2,
    { after: 'j1-7' },
  )
  assert.deepEqual(seen, [1, 2])
  assert.deepEqual(cursors, ['j1-7', undefined])
})

test('a server that never answers, or dies in the middle of an error, costs one connection', async () => {
  const { seen, cursors } = await seqs(
    (response, _request, index) => {
      if (index === 0) return // accepts the request and says nothing
      if (index === 1) {
        response.writeHead(503, { 'content-type': 'text/html', 'content-length': 1000 })
        response.write('<h1>', () => response.destroy())
      } else {
        sse(response)
        response.write(frame(1))
      }
    },
    1,
    { livenessMs: 100 },
  )
  assert.deepEqual(seen, [1])
  assert.equal(cursors.length, 3)
})

test('two readers of one client survive a thousand broken connections each, and get every event once', async (t) => {
  const warnings: string[] = []
  const note = (warning: Error): void => void warnings.push(warning.message)
  process.on('warning', note)
  t.after(() => process.off('warning', note))
  const COUNT = 1_000
  /** Each connection repeats an event, has a new one, a part of the next, and breaks. */
  const fetch = async (_url: unknown, init?: RequestInit): Promise<Response> => {
    const last = Number(new Headers(init?.headers).get('last-event-id')?.split('-')[1] ?? 0)
    const bytes = new TextEncoder().encode(
      `${last > 0 ? frame(last) : ''}${frame(last + 1)}${frame(last + 2).slice(0, last % 90)}`,
    )
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => controller.enqueue(bytes),
        pull: (controller) => controller.error(new TypeError('terminated')),
      },
      { highWaterMark: 0 },
    )
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  }
  const options = { fetch, sleep: async () => undefined, signal: new AbortController().signal }
  const client = new DaemonClient({ url: 'http://daemon.test', token: 'x' }, options)
  const read = async (): Promise<readonly number[]> => {
    const seen: number[] = []
    for await (const { seq } of client.events('s1', { signal: new AbortController().signal }))
      if (seen.push(seq) === COUNT) break
    return seen
  }
  const expected = Array.from({ length: COUNT }, (_, index) => index + 1)
  for (const seen of await Promise.all([read(), read()])) assert.deepEqual(seen, expected)
  assert.deepEqual(warnings, [])
})
