/**
 * Durable events per second on PostgreSQL, against bare fdatasyncs and against `pgbench -N` (one small transaction a commit) in the
 * same rounds; and how soon another daemon owns the sessions of one that died or that released them.
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  existsSync,
  fdatasyncSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { availableParallelism, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPostgresStore, type Store } from '@breakfall/daemon'
import { newId } from '@breakfall/wire/node'
import { startCluster } from '../test/kit/postgres-cluster.ts'
import { barPlot, quantile, report, round, table } from './kit.ts'

const ROUNDS = 5
const ROUND_MS = 1_500
const GOAL = 10
const BODY = JSON.stringify({ text: 'x'.repeat(280) })
const TURN = newId()

const folder = mkdtempSync(join(tmpdir(), 'breakfall-bench-fleet-'))
chmodSync(folder, 0o755) // PostgreSQL runs as another user if we are root
const cluster = await startCluster(join(folder, 'cluster'), ['fsync=on', 'shared_buffers=128MB', 'max_wal_size=2GB'])
const busyBefore = loadavg()[0] ?? 0

type Writer = { readonly id: string; readonly epoch: number; seq: number }

const open = (name: string, leaseMs?: number): Promise<Store> =>
  openPostgresStore({ url: cluster.url(), folder: join(folder, name), name, version: '0', leaseMs })

async function newSession(store: Store): Promise<Writer> {
  const data = { title: null, model: null, box: {}, tools: [], policy: {}, runnerId: null, boxMade: false }
  const at = new Date().toISOString()
  const { id } = await store.createSession({ id: newId(), journal: newId(), createdAt: at, data })
  const row = await store.claim(id)
  return { id, epoch: typeof row === 'object' ? row.epoch : 0, seq: 0 }
}

function bareSyncs(): number {
  const fd = openSync(join(folder, 'bare'), 'a')
  const bytes = Buffer.alloc(300, 0x61)
  const from = performance.now()
  let count = 0
  for (; performance.now() - from < ROUND_MS / 3; count += 1) {
    writeSync(fd, bytes)
    fdatasyncSync(fd)
  }
  closeSync(fd)
  return (count * 1_000) / (performance.now() - from)
}

/** Undefined if it is not installed. */
const pgbenchFile = ['/usr/lib/postgresql', '/usr/local/bin', '/usr/bin']
  .flatMap((base) =>
    base.endsWith('bin')
      ? [join(base, 'pgbench')]
      : existsSync(base)
        ? readdirSync(base).map((v) => join(base, v, 'bin/pgbench'))
        : [],
  )
  .find((file) => existsSync(file))

const pgbenchTo = ['-h', '127.0.0.1', '-p', String(cluster.port), '-U', 'postgres', 'postgres']

function pgbench(clients: number): number {
  if (pgbenchFile === undefined) return Number.NaN
  const how = ['-N', '-n', '-M', 'prepared', '-c', String(clients), '-j', '2', '-T', '2']
  const said = execFileSync(pgbenchFile, [...how, ...pgbenchTo], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return Number(/tps = ([\d.]+)/.exec(said)?.[1] ?? Number.NaN)
}

async function appended(
  store: Store,
  writers: readonly Writer[],
  eventsEach: number,
): Promise<{ perSecond: number; ms: readonly number[]; cpuUs: number }> {
  const from = performance.now()
  const cpuFrom = process.cpuUsage()
  const ms: number[] = []
  let count = 0
  const work = async (writer: Writer): Promise<void> => {
    while (performance.now() - from < ROUND_MS) {
      const events = Array.from({ length: eventsEach }, (_, n) => ({
        seq: writer.seq + 1 + n,
        type: 'text-delta',
        turnId: TURN,
        body: BODY,
      }))
      const asked = performance.now()
      await store.append({ sessionId: writer.id, epoch: writer.epoch, after: writer.seq, events })
      ms.push(performance.now() - asked)
      writer.seq += eventsEach
      count += eventsEach
    }
  }
  await Promise.all(writers.map(work))
  const { user, system } = process.cpuUsage(cpuFrom)
  return { perSecond: (count * 1_000) / (performance.now() - from), ms, cpuUs: (user + system) / count }
}

// ---- events per second ----

if (pgbenchFile !== undefined) execFileSync(pgbenchFile, ['-i', '-q', '-s', '10', ...pgbenchTo], { stdio: 'ignore' })
const store = await open('a')
const all = await Promise.all(Array.from({ length: 500 }, () => newSession(store)))
const WAYS = [
  { sessions: 1, eventsEach: 1, clients: 1 },
  { sessions: 8, eventsEach: 1, clients: 8 },
  { sessions: 64, eventsEach: 1, clients: 64 },
  { sessions: 500, eventsEach: 1, clients: 64 },
  { sessions: 500, eventsEach: 4, clients: 64 },
]
type Sample = { perSecond: number; bare: number; tps: number; p50: number; p99: number; cpuUs: number }
const samples = WAYS.map((): Sample[] => [])
for (let n = 0; n <= ROUNDS; n += 1) {
  const bare = bareSyncs()
  const tps = new Map([1, 8, 64].map((clients) => [clients, pgbench(clients)]))
  for (const [index, { sessions, eventsEach, clients }] of WAYS.entries()) {
    const { perSecond, ms, cpuUs } = await appended(store, all.slice(0, sessions), eventsEach)
    if (n === 0) continue // warms up
    const [p50, p99] = [quantile(ms, 0.5), quantile(ms, 0.99)]
    samples[index]?.push({ perSecond, bare, tps: tps.get(clients) ?? Number.NaN, p50, p99, cpuUs })
  }
}
const rows = WAYS.map((way, index) => {
  const rounds = samples[index] ?? []
  const median = (pick: (sample: Sample) => number): number => quantile(rounds.map(pick), 0.5)
  const [perSecond, bare, tps] = [median((s) => s.perSecond), median((s) => s.bare), median((s) => s.tps)]
  const [p50, p99, cpuUs] = [median((s) => s.p50), median((s) => s.p99), median((s) => s.cpuUs)]
  const [ofBare, ofPgbench] = [median((s) => s.perSecond / s.bare), median((s) => s.perSecond / s.tps)]
  return { ...way, perSecond, bare, tps, p50, p99, cpuUs, ofBare, ofPgbench }
})

// ---- ownership ----

const busy = { state: 'busy', turnId: TURN } as const
await Promise.all(
  all.map((writer) =>
    store.append({ sessionId: writer.id, epoch: writer.epoch, after: writer.seq, events: [], set: busy }),
  ),
)

async function claimedBy(other: Store, count: number): Promise<number> {
  const from = performance.now()
  for (let claimed = 0; claimed < count;) claimed += (await other.claimWork({ limit: 500 })).length
  return performance.now() - from
}

const releaseFrom = performance.now()
const release = { wakeAt: '2020-01-01T00:00:00.000Z', waitFor: null }
await Promise.all(
  all.map((writer) =>
    store.append({ sessionId: writer.id, epoch: writer.epoch, after: writer.seq, events: [], release }),
  ),
)
const releaseMs = performance.now() - releaseFrom
const claimMs = await claimedBy(store, all.length)
await store.close()
await cluster.stop('fast')
rmSync(folder, { recursive: true, force: true })

// ---- the report ----

const name = ({ sessions, eventsEach }: { sessions: number; eventsEach: number }): string =>
  `${sessions} session${sessions === 1 ? '' : 's'}${eventsEach === 1 ? '' : `, ${eventsEach} events an append`}`
const at64 = rows[2]?.ofPgbench ?? Number.NaN
report('fleet', {
  title: 'A shared store: PostgreSQL',
  text: [
    `Events of 300 bytes, each committed before it is acknowledged. Store, PostgreSQL 18 (fsync on) and pgbench share ${availableParallelism()} cores; load ${round(busyBefore)} before the run. Medians of ${ROUNDS} interleaved rounds; fdatasync ${round(rows[0]?.bare ?? Number.NaN)}/s, \`pgbench -N -M prepared\` ${[0, 1, 2].map((index) => `${round(rows[index]?.tps ?? Number.NaN)} (c${rows[index]?.clients ?? 0})`).join(', ')} transactions/s in the same rounds.`,
    table(
      ['', 'events/s', '× fdatasync', '× pgbench -N', 'p50 ms', 'p99 ms', 'client CPU µs an event'],
      rows.map((row) => [
        name(row),
        ...[row.perSecond, row.ofBare, row.ofPgbench, row.p50, row.p99, row.cpuUs].map(round),
      ]),
    ),
    pgbenchFile === undefined
      ? 'pgbench is not installed here, so its column is empty.'
      : `Goal: ${GOAL}× pgbench -N with 64 sessions: ${at64 >= GOAL ? 'met' : '**missed**'} (${round(at64)}×).`,
    `All sessions that wait are written by one statement, so the cost of a commit is shared; a single session pays it alone.`,
    `Releasing ${all.length} sessions takes ${round(releaseMs)} ms, and claiming them again ${round(claimMs)} ms: that is the store's part of a hand-over.`,
  ].join('\n\n'),
  svg: barPlot(
    'Durable events per second, as multiples of pgbench -N',
    rows.map((row) => ({ name: name(row), value: row.ofPgbench })),
    { goal: GOAL, unit: '×' },
  ),
})
