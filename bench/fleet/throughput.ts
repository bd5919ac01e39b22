/** Durable events per second on PostgreSQL, against bare fdatasyncs and against `pgbench -N` in the same rounds. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, fdatasyncSync, openSync, readdirSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { openPostgresStore, type Store } from '@breakfall/daemon'
import type { Cluster } from '../../test/kit/postgres-cluster.ts'
import { quantile } from '../kit.ts'
import { newSession, TURN, type Writer } from './sessions.ts'

const WAYS = [
  { sessions: 1, eventsEach: 1, clients: 1 },
  { sessions: 8, eventsEach: 1, clients: 8 },
  { sessions: 64, eventsEach: 1, clients: 64 },
  { sessions: 500, eventsEach: 1, clients: 64 },
  { sessions: 500, eventsEach: 4, clients: 64 },
]

export type Way = (typeof WAYS)[number]

/** Medians over the rounds. `ofBare` and `ofPgbench` compare within a round. */
export type Throughput = Way & Sample & { readonly ofBare: number; readonly ofPgbench: number }

export type StoreNumbers = {
  readonly rows: readonly Throughput[]
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
  const rows = await throughput({ ...options, cluster, folder })
  const store = await openPostgresStore({ url: cluster.url(), folder: join(folder, 'a'), name: 'a', version: '0' })
  try {
    const all = await Promise.all(Array.from({ length: 500 }, () => newSession(store)))
    return { rows, sessions: all.length, ...(await handOver(store, all)) }
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

const WAL_FILES = 240 // what all rounds write

/** A new server fills each WAL file with zeros before it uses it; one that has run for a while uses old ones again. */
function fillWal(pgbench: string, cluster: Cluster, folder: string): void {
  const script = join(folder, 'wal.sql')
  const run = (sql: string, times: number): void => {
    writeFileSync(script, sql)
    execFileSync(pgbench, ['-n', '-f', script, '-t', String(times), ...serverOf(cluster)], { stdio: 'ignore' })
  }
  run("SELECT pg_logical_emit_message(false, 'bench', 'x');\nSELECT pg_switch_wal();\n", WAL_FILES)
  run('CHECKPOINT;\n', 1)
}

type Rounds = { readonly rounds: number; readonly roundMs: number; readonly cluster: Cluster; readonly folder: string }

/** Each way has its own process, as a daemon is one: what another way left on its heap does not slow it down. */
async function throughput({ rounds, roundMs, cluster, folder }: Rounds): Promise<readonly Throughput[]> {
  const samples = WAYS.map((): Sample[] => [])
  const processes = await Promise.all(
    WAYS.map((way, index) => writing(cluster.url(), join(folder, `way-${index}`), way)),
  )
  try {
    for (let n = 0; n <= rounds; n += 1) {
      const bare = bareSyncs(join(folder, 'bare'), roundMs / 3)
      const tps = new Map([1, 8, 64].map((clients) => [clients, pgbench(cluster, clients, roundMs)]))
      for (const [index, { clients }] of WAYS.entries()) {
        const written = await processes[index]?.write(roundMs)
        if (n === 0 || written === undefined) continue // warms up
        samples[index]?.push({ ...written, bare, tps: tps.get(clients) ?? Number.NaN })
      }
    }
  } finally {
    await Promise.all(processes.map(({ end }) => end()))
  }
  return WAYS.map((way, index) => {
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

function pgbench(cluster: Cluster, clients: number, forMs: number): number {
  if (pgbenchFile === undefined) return Number.NaN
  const seconds = String(Math.max(Math.round(forMs / 1_000), 1))
  const how = ['-N', '-n', '-M', 'prepared', '-c', String(clients), '-j', '2', '-T', seconds]
  const said = execFileSync(pgbenchFile, [...how, ...serverOf(cluster)], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return Number(/tps = ([\d.]+)/.exec(said)?.[1] ?? Number.NaN)
}

type Written = Pick<Sample, 'perSecond' | 'p50' | 'p99' | 'cpuUs'>

type Writing = { readonly write: (forMs: number) => Promise<Written>; readonly end: () => Promise<unknown> }

async function writing(url: string, folder: string, { sessions, eventsEach }: Way): Promise<Writing> {
  const program = fileURLToPath(new URL('../programs/store-writer.ts', import.meta.url))
  const args = [program, url, folder, String(sessions), String(eventsEach)]
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const said = async (): Promise<Written> => {
    const { value, done } = await lines.next()
    if (done === true) throw new Error('a writer ended before it said anything')
    return JSON.parse(String(value)) as Written
  }
  await said() // it is ready
  return {
    write: (forMs) => {
      child.stdin.write(`${forMs}\n`)
      return said()
    },
    end: () => {
      child.stdin.end()
      return ended
    },
  }
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
