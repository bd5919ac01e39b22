/** What durability costs: events per second against bare fdatasyncs, added latency of a delta, many sessions, recovery. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { availableParallelism, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Daemon, type DaemonOptions, startDaemon } from '@breakfall/daemon'
import { openSqliteStore, type Store } from '@breakfall/engine'
import { barPlot, quantile, report, round, table } from './kit.ts'
import type { Load, LoadResult } from './programs/daemon-load.ts'
import { newId } from '@breakfall/wire/node'

const ROUNDS = 9
const ROUND_MS = 500
const WRITERS = 200
const WRITERS_MANY = 1_000
const GATHERED = 8
const GOAL = { ratio: 30, latencyMs: 25, recoveryMs: 2_000 }
const BODY = JSON.stringify({ text: 'x'.repeat(280) })
const TURN = newId()

const folder = mkdtempSync(join(tmpdir(), 'breakfall-bench-'))

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
    id: newId(),
    journal: newId(),
    createdAt: new Date().toISOString(),
    data,
  })
  const row = await store.claim(id)
  return { id, epoch: typeof row === 'object' ? row.epoch : 0, seq: 0 }
}

type Appended = { readonly perSecond: number; readonly cpuUs: number }

async function appended(store: Store, writers: readonly Writer[], eventsEach: number): Promise<Appended> {
  const from = performance.now()
  const cpuFrom = process.cpuUsage()
  let count = 0
  const work = async (writer: Writer): Promise<void> => {
    while (performance.now() - from < ROUND_MS) {
      const events = Array.from(
        { length: eventsEach },
        (_, n) => ({ seq: writer.seq + 1 + n, type: 'text-delta', turnId: TURN, body: BODY }) as const,
      )
      await store.append({ sessionId: writer.id, epoch: writer.epoch, after: writer.seq, events })
      writer.seq += eventsEach
      count += eventsEach
    }
  }
  await Promise.all(writers.map(work))
  const { user, system } = process.cpuUsage(cpuFrom)
  return { perSecond: (count * 1000) / (performance.now() - from), cpuUs: (user + system) / count }
}

type Row = Appended & { readonly name: string; readonly ratio: number; readonly ratios: readonly number[] }

async function durability(): Promise<{ bare: number; rows: readonly Row[] }> {
  const store = await openSqliteStore(join(folder, 'store'))
  const many = await Promise.all(Array.from({ length: WRITERS_MANY }, () => newSession(store)))
  const writers = many.slice(0, WRITERS)
  const ways = [
    { name: 'store, 1 session, 1 event an append', writers: writers.slice(0, 1), eventsEach: 1 },
    { name: `store, ${WRITERS} sessions, 1 event an append`, writers, eventsEach: 1 },
    { name: `store, ${WRITERS_MANY} sessions, 1 event an append`, writers: many, eventsEach: 1 },
    { name: `store, ${WRITERS} sessions, ${GATHERED} events an append`, writers, eventsEach: GATHERED },
  ]
  const samples = ways.map(() => [] as (Appended & { ratio: number })[])
  const bares: number[] = []
  for (let n = 0; n <= ROUNDS; n += 1) {
    const bare = bareSyncs(join(folder, 'bare'))
    if (n > 0) bares.push(bare)
    for (const [index, way] of ways.entries()) {
      const measured = await appended(store, way.writers, way.eventsEach)
      if (n > 0) samples[index]?.push({ ...measured, ratio: measured.perSecond / bare })
    }
  }
  await store.close()
  const rows = ways.map(({ name }, index) => {
    const rounds = samples[index] ?? []
    const ratios = rounds.map(({ ratio }) => ratio)
    const median = (pick: (sample: Appended) => number): number => quantile(rounds.map(pick), 0.5)
    const [perSecond, cpuUs] = [median((sample) => sample.perSecond), median((sample) => sample.cpuUs)]
    return { name, perSecond, cpuUs, ratio: quantile(ratios, 0.5), ratios }
  })
  return { bare: quantile(bares, 0.5), rows }
}

// ---- deltas through a whole daemon ----

const PIECES = 120
const PIECE_MS = 33

function start(name: string, options: Partial<DaemonOptions>): Promise<Daemon> {
  const model = { baseUrl: 'http://127.0.0.1:9', name: 'bench' }
  return startDaemon({ stateDir: join(folder, name), model, logLevel: 'silent', ...options })
}

type Streamed = {
  readonly count: number
  readonly p50: number
  readonly p99: number
  readonly perSecond: number
  readonly cpuUs: number
  readonly rssMb: number
}

/** The model and the readers run in a separate process; only the daemon runs in this one. */
async function sessionsAtOnce(count: number): Promise<Streamed> {
  const other = fork(new URL('./programs/daemon-load.ts', import.meta.url))
  const [{ modelUrl }] = (await once(other, 'message')) as [{ modelUrl: string }]
  const model = { baseUrl: `${modelUrl}/c${PIECES}-p${PIECE_MS}/v1`, name: 'bench' }
  const daemon = await start(`sessions-${count}`, { model })
  const cpuFrom = process.cpuUsage()
  other.send({ url: daemon.url, token: daemon.token, sessions: count } satisfies Load)
  const [{ latenciesMs, seconds }] = (await once(other, 'message')) as [LoadResult]
  const { user, system } = process.cpuUsage(cpuFrom)
  const rssMb = process.memoryUsage.rss() / 2 ** 20
  await daemon.close()
  return {
    count,
    p50: quantile(latenciesMs, 0.5),
    p99: quantile(latenciesMs, 0.99),
    perSecond: latenciesMs.length / seconds,
    cpuUs: (user + system) / latenciesMs.length,
    rssMb,
  }
}

// ---- recovery ----

async function recovery(turns: number): Promise<number> {
  const store = await openSqliteStore(join(folder, 'recovery', 'journal'))
  await Promise.all(
    Array.from({ length: turns }, async () => {
      const { id, epoch } = await newSession(store)
      const turnId = newId()
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
  const daemon = await start('recovery', {
    async *tryAnswer() {
      await sleep(60_000, undefined, { ref: false })
      yield* []
    },
  })
  const ms = performance.now() - from
  if (daemon.recovered !== turns) throw new Error(`recovered ${daemon.recovered} of ${turns}`)
  await daemon.close()
  return ms
}

// ---- the report ----

const busyBefore = loadavg()[0] ?? 0

const durable = await durability()
const streamed = [await sessionsAtOnce(1), await sessionsAtOnce(200), await sessionsAtOnce(1_000)]
const recoveryMs = await recovery(1_000)
rmSync(folder, { recursive: true, force: true })

const verdict = (isMet: boolean): string => (isMet ? 'met' : '**missed**')
const ratioOf = (index: number): number => durable.rows[index]?.ratio ?? 0
const syncMs = 1000 / durable.bare
report('daemon', {
  title: 'What durability costs',
  text: [
    `Before the run the load average was ${round(busyBefore)} on ${availableParallelism()} cores: what others did then is in these numbers.`,
    '## Durable events per second',
    'Every append is committed with an fdatasync before it is acknowledged. The floor is 300 bytes and one fdatasync, alone, in the same rounds; a ratio is the median of those of the rounds, which differ where others use the disk. Time on the processor counts both of the store’s threads and the writers.',
    table(
      ['writer', 'events/s', 'ratio', 'in the rounds', 'CPU µs an event'],
      [
        ['write + fdatasync', round(durable.bare), 1, '', ''],
        ...durable.rows.map(({ name, perSecond, ratio, ratios, cpuUs }) => [
          name,
          round(perSecond),
          round(ratio),
          `${round(Math.min(...ratios))} to ${round(Math.max(...ratios))}`,
          round(cpuUs),
        ]),
      ],
    ),
    `Goal: ${GOAL.ratio}×: ${verdict(ratioOf(1) >= GOAL.ratio)} with ${WRITERS} sessions and one event an append, ${verdict(ratioOf(2) >= GOAL.ratio)} with ${WRITERS_MANY} sessions, ${verdict(ratioOf(3) >= GOAL.ratio)} with ${GATHERED} events an append. What a common commit saves is syncs, so the ratio follows the disk: here a sync takes ${round(syncMs)} ms, which leaves ${round((syncMs * 1000) / GOAL.ratio)} µs for each event, its share of the common sync included. The store is bound by the processor: in those microseconds an event crosses two threads, gets its SHA-256 and its row, and is acknowledged.`,
    '## From the model to a reader over SSE',
    `Each session streams a piece every ${PIECE_MS} ms from a model server over HTTP, ${PIECES} of them; each event is committed, then sent to its reader. Model and readers share one process, the daemon has another. The first piece after a silence goes at once, more within 25 ms are gathered, and so is what comes while a commit is under way.`,
    table(
      ['sessions at once', 'p50 ms', 'p99 ms', 'pieces/s', 'of offered', 'daemon CPU µs a piece', 'memory MiB'],
      streamed.map((row) => [
        row.count,
        round(row.p50),
        round(row.p99),
        round(row.perSecond),
        `${Math.round((100 * row.perSecond * PIECE_MS) / 1000 / row.count)} %`,
        round(row.cpuUs),
        round(row.rssMb),
      ]),
    ),
    `Goal: p50 at most ${GOAL.latencyMs} ms with one session: ${verdict((streamed[0]?.p50 ?? Number.NaN) <= GOAL.latencyMs)} (${round(streamed[0]?.p50 ?? Number.NaN)} ms). A thousand sessions at this pace offer ${Math.round(1e6 / PIECE_MS)} pieces a second, which is more than one thread can parse, journal and send: the daemon then gathers more pieces into each event, and runs late instead of losing any.`,
    '## Recovery',
    `A daemon that starts with 1,000 unfinished turns has read their journals, checked every hash, and taken them over after ${round(recoveryMs)} ms. Goal: ${GOAL.recoveryMs} ms: ${verdict(recoveryMs <= GOAL.recoveryMs)}. They continue in turn: ten at once, then forty a second.`,
  ].join('\n\n'),
  svg: barPlot(
    'Durable events per second, as multiples of one fdatasync each',
    [{ name: 'write + fdatasync', value: 1 }, ...durable.rows.map(({ name, ratio }) => ({ name, value: ratio }))],
    { goal: GOAL.ratio, unit: '×' },
  ),
})
