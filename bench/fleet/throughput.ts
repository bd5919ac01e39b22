/** Durable events per second on PostgreSQL, against bare fdatasyncs and against `pgbench -N` in the same rounds. */
import { execFileSync } from 'node:child_process'
import { closeSync, existsSync, fdatasyncSync, openSync, readdirSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { openPostgresStore, type Store } from '@breakfall/engine'
import { newId } from '@breakfall/wire/node'
import type { Cluster } from '../../test/kit/postgres-cluster.ts'
import { quantile } from '../kit.ts'

const BODY = JSON.stringify({ text: 'x'.repeat(280) })
const TURN = newId()
const WAYS = [
  { sessions: 1, eventsEach: 1, clients: 1 },
  { sessions: 8, eventsEach: 1, clients: 8 },
  { sessions: 64, eventsEach: 1, clients: 64 },
  { sessions: 500, eventsEach: 1, clients: 64 },
  { sessions: 500, eventsEach: 4, clients: 64 },
]

const AT_64 = 2

export type Way = (typeof WAYS)[number]

/** Medians over the rounds. `ofBare` and `ofPgbench` compare within a round. */
export type Throughput = Way & Sample & { readonly ofBare: number; readonly ofPgbench: number }

export type StoreNumbers = {
  readonly rows: readonly Throughput[]
  /** 64 clients with the protocol that pgbench uses by default, and 64 sessions against them. */
  readonly unprepared: { readonly tps: number; readonly ratio: number }
  readonly sessions: number
  readonly releaseMs: number
  readonly claimMs: number
}

export async function measureStore(
  cluster: Cluster,
  folder: string,
  options: { readonly rounds: number; readonly roundMs: number },
): Promise<StoreNumbers> {
  if (pgbenchFile !== undefined) {
    execFileSync(pgbenchFile, ['-i', '-q', '-s', '10', ...serverOf(cluster)], { stdio: 'ignore' })
    fillWal(pgbenchFile, cluster, folder)
  }
  const store = await openPostgresStore({ url: cluster.url(), folder: join(folder, 'a'), name: 'a', version: '0' })
  try {
    const all = await Promise.all(Array.from({ length: 500 }, () => newSession(store)))
    const measured = await throughput(store, all, { ...options, cluster, folder })
    return { ...measured, sessions: all.length, ...(await handOver(store, all)) }
  } finally {
    await store.close()
  }
}

/** Undefined if it is not installed. */
export const pgbenchFile = ['/usr/lib/postgresql', '/usr/local/bin', '/usr/bin']
  .flatMap((base) =>
    base.endsWith('bin')
      ? [join(base, 'pgbench')]
      : existsSync(base)
        ? readdirSync(base).map((v) => join(base, v, 'bin/pgbench'))
        : [],
  )
  .find((file) => existsSync(file))

// ---- details, in the order they are used above ----

type Writer = { readonly id: string; readonly epoch: number; seq: number }

type Sample = {
  readonly perSecond: number
  readonly bare: number
  readonly tps: number
  readonly p50: number
  readonly p99: number
  readonly cpuUs: number
}

const serverOf = ({ port }: Cluster): readonly string[] => [
  '-h',
  '127.0.0.1',
  '-p',
  String(port),
  '-U',
  'postgres',
  'postgres',
]

const WAL_FILES = 300 // what all rounds write

/** A new server fills each WAL file with zeros before it uses it; one that has run for a while uses old ones again. */
function fillWal(pgbench: string, cluster: Cluster, folder: string): void {
  const emit = "SELECT pg_logical_emit_message(false, 'bench', 'x');\nSELECT pg_switch_wal();\n"
  runScript(pgbench, cluster, folder, emit, WAL_FILES)
  runScript(pgbench, cluster, folder, 'CHECKPOINT;\n', 1)
}

function runScript(pgbench: string, cluster: Cluster, folder: string, sql: string, times: number): void {
  const script = join(folder, 'script.sql')
  writeFileSync(script, sql)
  execFileSync(pgbench, ['-n', '-f', script, '-t', String(times), ...serverOf(cluster)], { stdio: 'ignore' })
}

async function newSession(store: Store): Promise<Writer> {
  const data = { title: null, model: null, box: {}, tools: [], policy: {}, runnerId: null, boxMade: false }
  const at = new Date().toISOString()
  const { id } = await store.createSession({ id: newId(), journal: newId(), createdAt: at, data })
  const row = await store.claim(id)
  return { id, epoch: typeof row === 'object' ? row.epoch : 0, seq: 0 }
}

type Rounds = { readonly rounds: number; readonly roundMs: number; readonly cluster: Cluster; readonly folder: string }

async function throughput(
  store: Store,
  all: readonly Writer[],
  { rounds, roundMs, cluster, folder }: Rounds,
): Promise<Pick<StoreNumbers, 'rows' | 'unprepared'>> {
  const samples = WAYS.map((): Sample[] => [])
  const unprepared: number[] = []
  for (let n = 0; n <= rounds; n += 1) {
    const bare = bareSyncs(join(folder, 'bare'), roundMs / 3)
    const tps = new Map([1, 8, 64].map((clients) => [clients, pgbench(cluster, clients, roundMs, PREPARED)]))
    if (n > 0) unprepared.push(pgbench(cluster, 64, roundMs))
    for (const [index, { sessions, eventsEach, clients }] of WAYS.entries()) {
      const { perSecond, ms, cpuUs } = await appended(store, all.slice(0, sessions), eventsEach, roundMs)
      if (n === 0) continue // warms up
      const [p50, p99] = [quantile(ms, 0.5), quantile(ms, 0.99)]
      samples[index]?.push({ perSecond, bare, tps: tps.get(clients) ?? Number.NaN, p50, p99, cpuUs })
    }
    // As `pgbench -i` did for its own tables. Without statistics, each append would read all heads.
    if (n === 0 && pgbenchFile !== undefined) runScript(pgbenchFile, cluster, folder, 'VACUUM ANALYZE;\n', 1)
  }
  const rows = WAYS.map((way, index) => {
    const median = (pick: (sample: Sample) => number): number => quantile((samples[index] ?? []).map(pick), 0.5)
    return {
      ...way,
      perSecond: median((s) => s.perSecond),
      bare: median((s) => s.bare),
      tps: median((s) => s.tps),
      p50: median((s) => s.p50),
      p99: median((s) => s.p99),
      cpuUs: median((s) => s.cpuUs),
      ofBare: median((s) => s.perSecond / s.bare),
      ofPgbench: median((s) => s.perSecond / s.tps),
    }
  })
  const ratios = (samples[AT_64] ?? []).map(({ perSecond }, nr) => perSecond / (unprepared[nr] ?? Number.NaN))
  return { rows, unprepared: { tps: quantile(unprepared, 0.5), ratio: quantile(ratios, 0.5) } }
}

function bareSyncs(file: string, forMs: number): number {
  const fd = openSync(file, 'a')
  const bytes = Buffer.alloc(300, 0x61)
  const from = performance.now()
  let count = 0
  for (; performance.now() - from < forMs; count += 1) {
    writeSync(fd, bytes)
    fdatasyncSync(fd)
  }
  closeSync(fd)
  return (count * 1_000) / (performance.now() - from)
}

const PREPARED = ['-M', 'prepared']

function pgbench(cluster: Cluster, clients: number, forMs: number, more: readonly string[] = []): number {
  if (pgbenchFile === undefined) return Number.NaN
  const seconds = String(Math.max(Math.round(forMs / 1_000), 1))
  const how = ['-N', '-n', ...more, '-c', String(clients), '-j', '2', '-T', seconds]
  const said = execFileSync(pgbenchFile, [...how, ...serverOf(cluster)], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return Number(/tps = ([\d.]+)/.exec(said)?.[1] ?? Number.NaN)
}

async function appended(
  store: Store,
  writers: readonly Writer[],
  eventsEach: number,
  forMs: number,
): Promise<{ perSecond: number; ms: readonly number[]; cpuUs: number }> {
  const from = performance.now()
  const cpuFrom = process.cpuUsage()
  const ms: number[] = []
  let count = 0
  const work = async (writer: Writer): Promise<void> => {
    while (performance.now() - from < forMs) {
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

/** The store's part of a hand-over: all sessions are released, and claimed again. */
async function handOver(store: Store, all: readonly Writer[]): Promise<Pick<StoreNumbers, 'releaseMs' | 'claimMs'>> {
  const change = (how: object): Promise<unknown> =>
    Promise.all(all.map(({ id, epoch, seq }) => store.append({ sessionId: id, epoch, after: seq, events: [], ...how })))
  await change({ set: { state: 'busy', turnId: TURN } })
  const from = performance.now()
  await change({ release: { wakeAt: '2020-01-01T00:00:00.000Z', waitFor: null } })
  const released = performance.now()
  for (let claimed = 0; claimed < all.length;) claimed += (await store.claimWork({ limit: 500 })).length
  return { releaseMs: released - from, claimMs: performance.now() - released }
}
