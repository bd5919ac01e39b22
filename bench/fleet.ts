/**
 * Many daemons on one PostgreSQL: durable events per second against bare fdatasyncs and `pgbench -N`, growth with the number of daemons,
 * tails at another daemon than the owner, hand-over and takeover. `--quick` runs small sizes and writes no report.
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { startCluster } from '../test/kit/postgres-cluster.ts'
import { CLIENTS, type FleetNumbers, measureDaemons, TURNS } from './fleet/daemons.ts'
import { measureStore, pgbenchFile, type StoreNumbers, type Way } from './fleet/throughput.ts'
import { barPlot, quantile, report, round, table } from './kit.ts'

const isQuick = process.argv.includes('--quick')
const GOAL = 5
const ROUNDS = isQuick ? { rounds: 1, roundMs: 400 } : { rounds: 9, roundMs: 1_200 }
const SIZES = isQuick
  ? { growthMs: 1_000, answerMs: 2_000, handOvers: 1, kills: [{ leaseMs: 4_000, times: 1 }] }
  : {
      growthMs: 4_000,
      answerMs: 5_000,
      handOvers: 3,
      kills: [
        { leaseMs: 4_000, times: 2 },
        { leaseMs: 15_000, times: 1 },
      ],
    }

const folder = mkdtempSync(join(tmpdir(), 'breakfall-bench-fleet-'))
chmodSync(folder, 0o755) // PostgreSQL runs as another user if we are root
const [from, loadBefore] = [performance.now(), loadavg()[0] ?? 0]
const cluster = await startCluster(join(folder, 'cluster'), [
  'fsync=on',
  'shared_buffers=128MB',
  'min_wal_size=5GB',
  'max_wal_size=8GB',
])
let store: StoreNumbers
let fleet: FleetNumbers
try {
  store = await measureStore(cluster, folder, ROUNDS)
  fleet = await measureDaemons(cluster, SIZES)
} finally {
  await cluster.stop('fast')
  rmSync(folder, { recursive: true, force: true })
}

// ---- the report ----

const name = ({ sessions, eventsEach }: Way): string =>
  `${sessions} session${sessions === 1 ? '' : 's'}${eventsEach === 1 ? '' : `, ${eventsEach} events an append`}`
const verdict = (ratio: number): string => `${ratio >= GOAL ? 'met' : '**missed**'} (${round(ratio)}×)`
const spread = (ms: readonly number[]): readonly number[] =>
  [quantile(ms, 0.5), quantile(ms, 0.99), Math.max(...ms)].map(round)

const { rows, unprepared } = store
const at64 = rows[2]?.ofPgbench ?? Number.NaN
const one = fleet.growth[0]?.turnsPerSecond ?? Number.NaN
const text = [
  `The benchmark, PostgreSQL 18 (fsync on), the daemons and a scripted model share ${availableParallelism()} cores. The server has 4.8 GB of WAL files to use again, as one has that did not start today: a new one would stop for 40 ms after every 16 MB, to fill the next file with zeros. Load of the machine: ${round(loadBefore)} before the run, ${round(loadavg()[0] ?? 0)} at its end, ${Math.round((performance.now() - from) / 1_000)} s later.`,
  '## Events per second',
  `Events of 300 bytes, each committed before it is acknowledged. Medians of interleaved rounds (${ROUNDS.rounds}); fdatasync ${round(rows[0]?.bare ?? Number.NaN)}/s, \`pgbench -N -M prepared\` ${rows
    .slice(0, 3)
    .map(({ tps, clients }) => `${round(tps)} (c${clients})`)
    .join(', ')} transactions/s in the same rounds.`,
  table(
    ['', 'events/s', '× fdatasync', '× pgbench -N', 'p50 ms', 'p99 ms', 'client CPU µs an event'],
    rows.map((row) => [
      name(row),
      ...[row.perSecond, row.ofBare, row.ofPgbench, row.p50, row.p99, row.cpuUs].map(round),
    ]),
  ),
  pgbenchFile === undefined
    ? 'pgbench is not installed here, so its column is empty.'
    : `Goal: ${GOAL}× pgbench -N with 64 sessions: ${verdict(at64)} with prepared statements, as in the table; ${verdict(unprepared.ratio)} with the protocol that pgbench uses by default (${round(unprepared.tps)} transactions/s with 64 clients).`,
  `All sessions that wait are written by one statement, so the cost of a commit is shared; a single session pays it alone. Releasing ${store.sessions} sessions takes ${round(store.releaseMs)} ms, and claiming them again ${round(store.claimMs)} ms: that is the store's part of a hand-over.`,
  '## More daemons',
  `Short turns (20 pieces of text, no tools) by ${CLIENTS} clients, divided among the daemons; ${SIZES.growthMs / 1_000} s each. All daemons, their database, the model and the clients share the same cores, so this is what one more daemon brings on one machine. Measured from three daemons down to one, so the last number has the warmest process.`,
  table(
    ['daemons', 'turns/s', 'events/s', '× one daemon'],
    fleet.growth.map(({ daemons, turnsPerSecond, eventsPerSecond }) => [
      daemons,
      ...[turnsPerSecond, eventsPerSecond, turnsPerSecond / one].map(round),
    ]),
  ),
  '## A reader at another daemon than the owner',
  `How much later each text event comes there than at the owner, which reads along; ${TURNS} turns, 30 pieces a second each. Goal: p50 20 ms, and p99 1,000 ms with hints lost.`,
  table(
    ['', 'p50 ms', 'p99 ms', 'most ms', 'events'],
    fleet.tails.map((tail) => [tail.name, ...spread(tail.ms), tail.ms.length]),
  ),
  '## A daemon goes',
  `${TURNS} turns that wait for their model at one of three daemons: how long until a reader at another daemon sees them continue. A daemon renews its lease three times in a lease and looks for dead ones then. So kill -9 costs between two thirds of a lease and about a lease and a third.`,
  table(
    ['', 'p50 ms', 'p99 ms', 'most ms', 'turns'],
    [
      ['SIGTERM', fleet.handOvers.flatMap(({ ms }) => ms)] as const,
      ...fleet.takeovers.map(({ leaseMs, ms }) => [`kill -9, lease ${leaseMs / 1_000} s`, ms] as const),
    ].map(([how, ms]) => [how, ...spread(ms), ms.length]),
  ),
  `The process that got SIGTERM had ended after ${round(
    quantile(
      fleet.handOvers.map(({ exitMs }) => exitMs),
      0.5,
    ),
  )} ms.`,
].join('\n\n')

if (isQuick) process.stdout.write(`${text}\n`)
else {
  report('fleet', {
    title: 'A fleet on PostgreSQL',
    text,
    svg: barPlot(
      'Durable events per second, as multiples of pgbench -N',
      rows.map((row) => ({ name: name(row), value: row.ofPgbench })),
      { goal: GOAL, unit: '×' },
    ),
  })
}
