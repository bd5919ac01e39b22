/** A primary that is lost, with a standby that has everything or not. */
import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import pg from 'pg'
import { inOrder, type Script } from '../../packages/engine/test/support/scripted-model.ts'
import { removeFolder } from '../../test/kit/folder.ts'
import { type Cluster, startPair } from '../../test/kit/postgres-cluster.ts'
import type { Database } from '../../test/kit/postgres.ts'
import { TcpProxy } from '../../test/kit/tcp-proxy.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { assertEpochsGrow, sameEverywhere } from './agreement.ts'
import { type FleetDaemon, FleetRig } from './rig.ts'

/** A primary and its standby, behind one address that moves; and the connection between them, which can be interrupted. */
class Pair implements AsyncDisposable {
  readonly primary: Cluster
  readonly standby: Cluster
  readonly front: TcpProxy
  readonly replication: TcpProxy
  readonly #folder: string

  static async start(): Promise<Pair> {
    const folder = mkdtempSync(join(tmpdir(), 'breakfall-pair-'))
    chmodSync(folder, 0o755) // PostgreSQL runs as another user if we are root
    let replication: TcpProxy | undefined
    const { primary, standby } = await startPair(join(folder, 'pair'), async (port) => {
      replication = await TcpProxy.start(port)
      return replication.port
    })
    assert.ok(replication !== undefined)
    return new Pair(folder, { primary, standby, replication, front: await TcpProxy.start(primary.port) })
  }

  constructor(folder: string, parts: { primary: Cluster; standby: Cluster; front: TcpProxy; replication: TcpProxy }) {
    this.#folder = folder
    this.primary = parts.primary
    this.standby = parts.standby
    this.front = parts.front
    this.replication = parts.replication
  }

  /** Through the address that the daemons use. */
  get database(): Database {
    const url = `postgres://postgres@127.0.0.1:${this.front.port}/postgres`
    return { url, query: (sql, values) => ask(url, sql, values), close: () => Promise.resolve() }
  }

  /** The standby has everything that was committed so far. */
  async caughtUp(): Promise<void> {
    await eventually('the standby has everything', async () => {
      const [row] = await ask(
        this.primary.url(),
        "SELECT 1 FROM pg_stat_replication WHERE application_name = 'second' AND replay_lsn >= pg_current_wal_lsn()",
      )
      return row
    })
  }

  async failOver(): Promise<void> {
    await this.primary.stop('immediate')
    await ask(this.standby.url(), 'SELECT pg_promote()')
    this.front.target = this.standby.port
    this.front.cut()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.front[Symbol.asyncDispose]()
    await this.replication[Symbol.asyncDispose]()
    await this.primary.stop('immediate')
    await this.standby.stop('immediate')
    removeFolder(this.#folder)
  }
}

async function ask(url: string, sql: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined) // the test ends servers
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(sql, [...values])).rows
  } finally {
    await client.end()
  }
}

/** `talk` needs no tool. Any other prompt is a name: each of its two commands notes that it began, and ends when there is a file with its name. */
const script: Script = (asked, request) => {
  const name = String(asked.messages.findLast((message) => message.role === 'user')?.content ?? '')
  if (name === 'talk') return { text: 'here' }
  const call = (at: string) => {
    const command = `echo ${name}-${at} >> effects; while [ ! -e ${name}-${at} ]; do sleep 0.1; done`
    return { calls: [{ id: at, tool: 'bash', arguments: { command } }] }
  }
  return inOrder(call('1'), call('2'), { text: 'done' })(asked, request)
}

async function pairAndRig(t: { after(fn: () => Promise<void>): void }): Promise<{ pair: Pair; rig: FleetRig }> {
  const stack = new AsyncDisposableStack()
  t.after(() => stack.disposeAsync())
  const pair = stack.use(await Pair.start())
  const rig = stack.use(await FleetRig.start(script, Promise.resolve(pair.database)))
  return { pair, rig }
}

test(
  'an asynchronous failover: a lost tail is appended again by its owner, or the session is set aside and says so',
  LIMIT,
  async (t) => {
    const { pair, rig } = await pairAndRig(t)
    const inShared = { box: { workspace: rig.workspace } }
    const effect = (line: string): Promise<unknown> => eventually(`${line} began`, () => rig.effects().includes(line))
    const go = (name: string): void => writeFileSync(join(rig.workspace, name), '')
    const long = ['--lease-ms', '8000'] // a busy machine must not cost the owner its lease during the failover
    const [a, b, gone] = await Promise.all([rig.daemon('a', long), rig.daemon('b', long), rig.daemon('gone')])

    const kept = await a.api.session(inShared)
    const lost = await gone.api.session(inShared)
    const keptTurn = await a.api.prompt(kept.id, 'kept')
    await gone.api.prompt(lost.id, 'lost')
    await Promise.all([effect('kept-1'), effect('lost-1')])
    await pair.caughtUp()
    const reading = new AbortController()
    t.after(() => reading.abort())
    const frames: { event?: string | undefined; data: string }[] = []
    const reader = (async () => {
      for await (const frame of b.api.frames(lost.id, 0, reading.signal)) frames.push(frame)
    })().catch(() => undefined) // ended below

    pair.replication.up = 'hold'
    pair.replication.down = 'hold'
    go('kept-1')
    go('lost-1')
    await Promise.all([effect('kept-2'), effect('lost-2')])
    let calls = 0
    const before = await b.api.events(kept.id, ({ type }) => type === 'tool-call' && ++calls === 2)
    await eventually(
      'the reader has what will be lost',
      () => frames.filter(({ event }) => event === 'tool-call').length === 2,
    )
    await gone.program.kill('SIGKILL') // only this daemon has the lost events in memory
    await pair.failOver()

    go('kept-2')
    const events = await sameEverywhere([a, b], kept.id, keptTurn)
    assert.equal(events.at(-1)?.type, 'turn-end')
    assert.deepEqual(events.slice(0, before.length), before, 'what was acknowledged before is still there')
    const again = await rig.daemon('gone')
    const session = await eventually('the session is set aside', async () => {
      const { json } = await again.api.call('GET', `/v1/sessions/${lost.id}`)
      return json['quarantined'] === null ? undefined : json
    })
    assert.match(JSON.stringify(session['quarantined']), /journal_corrupt.*lost its events after \d+/)
    await reader
    assert.deepEqual(
      frames.filter(({ event }) => event === 'reset').map(({ data }) => data),
      ['{"reason":"journal_rewound"}'],
    )
    assert.deepEqual(rig.effects().toSorted(), ['kept-1', 'kept-2', 'lost-1', 'lost-2'])
    const next = await b.api.session(inShared)
    const receipt = await eventually('sessions are claimed again, one lease after the failover', async () => {
      const { status, json } = await b.api.call('POST', `/v1/sessions/${next.id}/turns`, { prompt: 'next' })
      return status === 202 ? json : undefined
    })
    const nextTurn = String(receipt['turnId'])
    await effect('next-1')
    go('next-1')
    go('next-2')
    await sameEverywhere([a, b], next.id, nextTurn)
    const epochs = await assertEpochsGrow(rig, next.id)
    assert.ok(
      epochs.every((epoch) => epoch > 2_000_000_000),
      'epochs start at the new timeline',
    )
  },
)

/** A commit whose backend ends while it waits for the standby is visible, and a failover can still lose it. */
async function assertBarrier(pair: Pair, { api }: FleetDaemon, id: string): Promise<void> {
  // The server shows the first kilobyte of a statement. An append starts with its limit for locks.
  const waiting = async (statement: string, act = 'pid'): Promise<unknown> => {
    const [row] = await ask(
      pair.primary.url(),
      `SELECT ${act} FROM pg_stat_activity WHERE wait_event = ANY ('{SyncRep,transactionid,tuple}') AND query LIKE '%${statement}%'`,
    )
    return row
  }
  const lastSeq = async (): Promise<number> => {
    const [row] = await ask(pair.primary.url(), 'SELECT last_seq FROM heads WHERE session_id = $1', [id])
    return Number(row?.['last_seq'])
  }
  const before = await lastSeq()
  pair.replication.up = 'hold'
  pair.replication.down = 'hold'
  let isAcknowledged = false
  try {
    const prompt = api.prompt(id, 'talk', { queue: true }).then(() => (isAcknowledged = true))
    await eventually('its commit waits for the standby', () => waiting('lock_timeout'))
    await waiting('lock_timeout', 'pg_terminate_backend(pid)')
    await eventually('another commit waits in its place, or for the next renewal to commit', () =>
      waiting('SET barrier'),
    )
    assert.ok((await lastSeq()) > before, 'the first one is visible')
    assert.equal(isAcknowledged, false)
    pair.replication.release()
    await prompt
  } finally {
    pair.replication.release()
  }
}

test(
  'a synchronous failover loses nothing, every turn keeps its owner, and what a standby may lack is not acknowledged',
  LIMIT,
  async (t) => {
    const { pair, rig } = await pairAndRig(t)
    await ask(pair.primary.url(), "ALTER SYSTEM SET synchronous_standby_names = 'second'")
    await ask(pair.primary.url(), 'SELECT pg_reload_conf()')
    await eventually('commits wait for the standby', async () => {
      const [row] = await ask(pair.primary.url(), "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
      return row
    })
    const long = ['--lease-ms', '30000'] // a busy machine must not cost a lease here
    const [a, b] = await Promise.all(['a', 'b'].map((name) => rig.daemon(name, long)))
    assert.ok(a !== undefined && b !== undefined)
    const { id } = await a.api.session({ box: { workspace: rig.workspace } })
    const turnId = await a.api.prompt(id, 'sync')
    await eventually('its command runs', () => rig.effects().includes('sync-1'))
    await assertBarrier(pair, a, id)
    const before = await b.api.events(id, ({ type }) => type === 'tool-call')
    await pair.failOver()
    writeFileSync(join(rig.workspace, 'sync-1'), '')
    writeFileSync(join(rig.workspace, 'sync-2'), '')
    const events = await sameEverywhere([a, b], id, turnId)
    assert.deepEqual(events.slice(0, before.length), before)
    assert.equal(events.at(-1)?.type, 'turn-end')
    assert.ok(!events.some(({ type }) => type === 'taken-over'))
    assert.deepEqual(rig.effects(), ['sync-1', 'sync-2'])
    assert.equal(new Set(await assertEpochsGrow(rig, id)).size, 1, 'the same owner')
  },
)
