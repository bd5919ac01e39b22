/** What durability costs: events per second against bare fdatasyncs, added latency of a delta, many sessions, recovery. */
import { randomUUIDv7 } from 'node:crypto'
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Daemon, type DaemonOptions, openSqliteStore, startDaemon, type Store } from '@breakfall/daemon'
import type { AttemptRecord } from '@breakfall/model'
import { barPlot, quantile, report, round, table } from './kit.ts'

const ROUNDS = 9
const ROUND_MS = 500
const WRITERS = 200
const GOAL = { ratio: 30, latencyMs: 25, recoveryMs: 2_000 }
const BODY = JSON.stringify({ text: 'x'.repeat(280) })

const folder = mkdtempSync(join(tmpdir(), 'breakfall-bench-'))
const known = { value: 1, quality: 'known' } as const

// ---- durable events per second ----

function bareSyncs(file: string): number {
  const fd = openSync(file, 'a')
  const bytes = Buffer.alloc(300, 0x61)
  const from = performance.now()
  let count = 0
  for (; performance.now() - from < ROUND_MS; count += 1) {
    writeSync(fd, bytes)
    fdatasyncSync(fd)
  }
  const perSecond = (count * 1000) / (performance.now() - from)
  closeSync(fd)
  return perSecond
}

type Writer = { readonly id: string; readonly epoch: number; seq: number }

async function newSession(store: Store): Promise<Writer> {
  const data = { title: null, model: null, box: {}, tools: [], policy: {}, runnerId: null, boxMade: false }
  const { id } = await store.createSession({
    id: randomUUIDv7(),
    journal: randomUUIDv7(),
    createdAt: new Date().toISOString(),
    data,
  })
  return { id, epoch: (await store.claim(id))?.epoch ?? 0, seq: 0 }
}

async function appended(store: Store, writers: readonly Writer[]): Promise<number> {
  const from = performance.now()
  let count = 0
  const work = async (writer: Writer): Promise<void> => {
    while (performance.now() - from < ROUND_MS) {
      const event = { seq: writer.seq + 1, type: 'text-delta', turnId: 't', body: BODY } as const
      await store.append({ sessionId: writer.id, epoch: writer.epoch, after: writer.seq, events: [event] })
      writer.seq += 1
      count += 1
    }
  }
  await Promise.all(writers.map(work))
  return (count * 1000) / (performance.now() - from)
}

async function durability(): Promise<{ bare: number; one: number; many: number; ratio: number }> {
  const store = await openSqliteStore(join(folder, 'store'))
  const writers = await Promise.all(Array.from({ length: WRITERS }, () => newSession(store)))
  const samples: { bare: number; one: number; many: number }[] = []
  for (let n = 0; n <= ROUNDS; n += 1) {
    const bare = bareSyncs(join(folder, 'bare'))
    const one = await appended(store, writers.slice(0, 1))
    const many = await appended(store, writers)
    if (n > 0) samples.push({ bare, one, many })
  }
  await store.close()
  const median = (pick: (sample: (typeof samples)[number]) => number): number => quantile(samples.map(pick), 0.5)
  return {
    bare: median((s) => s.bare),
    one: median((s) => s.one),
    many: median((s) => s.many),
    ratio: median((s) => s.many / s.bare),
  }
}

// ---- deltas through a whole daemon ----

const DELTAS = 60
const DELTA_MS = 33

const RECORD: AttemptRecord = {
  attempt: 1,
  model: '',
  baseUrl: '',
  startedAt: '',
  durationMs: 0,
  phase: 'stream',
  bytes: 0,
  resumed: false,
  fault: null,
  action: null,
  delayMs: 0,
  usage: { inputTokens: known, outputTokens: known },
}

/** A model that says when it said it. */
const talking: NonNullable<DaemonOptions['tryAnswer']> = async function* () {
  for (let n = 0; n < DELTAS; n += 1) {
    await sleep(DELTA_MS)
    yield { type: 'text-delta', attempt: 1, part: 'p1', text: `${performance.now()} ` }
  }
  yield { type: 'done', finish: 'stop', proven: true, record: RECORD }
}

function start(name: string, tryAnswer: NonNullable<DaemonOptions['tryAnswer']>): Promise<Daemon> {
  return startDaemon({
    stateDir: join(folder, name),
    model: { baseUrl: 'http://127.0.0.1:9', name: 'bench' },
    tryAnswer,
    logLevel: 'silent',
  })
}

/** Reads a session over SSE to the end of its turn; how long each delta took from the model's mouth. */
async function latencies(daemon: Daemon, sessionId: string): Promise<number[]> {
  const over = new AbortController()
  const response = await fetch(`${daemon.url}/v1/sessions/${sessionId}/events`, {
    headers: { authorization: `Bearer ${daemon.token}` },
    signal: over.signal,
  })
  const seen: number[] = []
  let text = ''
  for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(bytes).toString('utf8')
    const now = performance.now()
    const frames = text.split('\n\n')
    text = frames.pop() ?? ''
    for (const frame of frames) {
      if (frame.startsWith('event: turn-end')) return seen
      const said = /"text":"([\d. ]+)"/.exec(frame)?.[1]
      if (frame.startsWith('event: text-delta') && said !== undefined)
        for (const at of said.trim().split(' ')) seen.push(now - Number(at))
    }
  }
  return seen
}

async function sessionsAtOnce(
  count: number,
): Promise<{ count: number; p50: number; p99: number; perSecond: number; rssMb: number }> {
  const daemon = await start(`sessions-${count}`, talking)
  const from = performance.now()
  const all = await Promise.all(
    Array.from({ length: count }, async () => {
      const { id } = await daemon.sessions.create({ tools: [] })
      const reading = latencies(daemon, id)
      await daemon.sessions.prompt(id, { prompt: 'talk' }, undefined)
      return reading
    }),
  )
  const seconds = (performance.now() - from) / 1000
  const flat = all.flat()
  const rssMb = process.memoryUsage.rss() / 2 ** 20
  await daemon.close()
  return { count, p50: quantile(flat, 0.5), p99: quantile(flat, 0.99), perSecond: flat.length / seconds, rssMb }
}

// ---- recovery ----

async function recovery(turns: number): Promise<number> {
  const store = await openSqliteStore(join(folder, 'recovery', 'journal'))
  await Promise.all(
    Array.from({ length: turns }, async () => {
      const { id, epoch } = await newSession(store)
      const turnId = randomUUIDv7()
      const at = new Date().toISOString()
      const of = (seq: number, type: 'turn-start' | 'step-start' | 'text-delta', more: object) => ({
        seq,
        type,
        turnId,
        body: JSON.stringify({ seq, type, sessionId: id, turnId, at, ...more }),
      })
      const deltas = Array.from({ length: 20 }, (_, n) =>
        of(n + 3, 'text-delta', { step: 1, attempt: 1, part: 'p1', text: 'some words ' }),
      )
      const events = [of(1, 'turn-start', { prompt: 'go' }), of(2, 'step-start', { step: 1 }), ...deltas]
      await store.append({ sessionId: id, epoch, after: 0, events, set: { state: 'busy', turnId } })
    }),
  )
  await store.close()
  const from = performance.now()
  const daemon = await start('recovery', async function* () {
    await sleep(60_000, undefined, { ref: false })
    yield* []
  })
  const ms = performance.now() - from
  if (daemon.recovered !== turns) throw new Error(`recovered ${daemon.recovered} of ${turns}`)
  await daemon.close()
  return ms
}

// ---- the report ----

const durable = await durability()
const single = await sessionsAtOnce(1)
const some = await sessionsAtOnce(200)
const many = await sessionsAtOnce(1_000)
const recoveryMs = await recovery(1_000)
rmSync(folder, { recursive: true, force: true })

const verdict = (isMet: boolean): string => (isMet ? 'met' : '**missed**')
report('daemon', {
  title: 'What durability costs',
  text: [
    '## Durable events per second',
    'Every append is committed with an fdatasync before it is acknowledged. The floor is 300 bytes and one fdatasync, alone, in the same rounds.',
    table(
      ['writer', 'events/s', 'ratio'],
      [
        ['write + fdatasync', round(durable.bare), 1],
        ['store, 1 session', round(durable.one), round(durable.one / durable.bare)],
        [`store, ${WRITERS} sessions`, round(durable.many), round(durable.ratio)],
      ],
    ),
    `Goal: ${GOAL.ratio}× with ${WRITERS} sessions: ${verdict(durable.ratio >= GOAL.ratio)}. What one commit saves is a sync: the faster the disk syncs, the smaller the ratio can be, since the store is then bound by the processor (here ${round(1000 / durable.bare)} ms a sync).`,
    '## From the model to a reader over SSE',
    `Each session streams a piece every ${DELTA_MS} ms. The first piece after a silence goes at once, more within 25 ms are gathered; each event is committed, then sent. Model, daemon and readers share this one process.`,
    table(
      ['sessions at once', 'p50 ms', 'p99 ms', 'pieces/s', 'memory MiB'],
      [single, some, many].map((row) => [
        row.count,
        round(row.p50),
        round(row.p99),
        round(row.perSecond),
        round(row.rssMb),
      ]),
    ),
    `Goal: p50 at most ${GOAL.latencyMs} ms with one session: ${verdict(single.p50 <= GOAL.latencyMs)} (${round(single.p50)} ms).`,
    '## Recovery',
    `A daemon that starts with 1,000 unfinished turns has read their journals, checked every hash, and taken them over after ${round(recoveryMs)} ms. Goal: ${GOAL.recoveryMs} ms: ${verdict(recoveryMs <= GOAL.recoveryMs)}.`,
  ].join('\n\n'),
  svg: barPlot(
    'Durable events per second, as multiples of one fdatasync each',
    [
      { name: 'write + fdatasync', value: 1 },
      { name: 'store, 1 session', value: durable.one / durable.bare },
      { name: `store, ${WRITERS} sessions`, value: durable.ratio },
    ],
    { goal: GOAL.ratio, unit: '×' },
  ),
})
