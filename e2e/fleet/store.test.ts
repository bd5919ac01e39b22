/** A database that restarts, is slow, is full, or has no connections left. */
import assert from 'node:assert/strict'
import { chmodSync, chownSync, existsSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import { isTerminal } from '@breakfall/wire'
import pg from 'pg'
import { isAppend } from '../../packages/engine/test/conformance/store-kit.ts'
import { types } from '../../packages/daemon/test/support/api.ts'
import { smallDisk } from '../../packages/engine/test/support/small-disk.ts'
import { inOrder } from '../../packages/engine/test/support/scripted-model.ts'
import { removeFolder } from '../../test/kit/folder.ts'
import { type Cluster, NOBODY, startCluster } from '../../test/kit/postgres-cluster.ts'
import { Program } from '../../test/kit/program.ts'
import { closedPort } from '../../test/kit/tcp-server.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { shared } from '../shared.ts'
import { sameEverywhere } from './agreement.ts'
import { FleetRig } from './rig.ts'

const CONNECTIONS = 90
/** A busy machine must not cost a lease here: no case in this file is about losing one. */
const LONG = ['--lease-ms', '60000']

const folder = mkdtempSync(join(tmpdir(), 'breakfall-store-'))
chmodSync(folder, 0o755) // PostgreSQL runs as another user if we are root
const cluster: Cluster = await startCluster(join(folder, 'cluster'), [`max_connections=${CONNECTIONS}`])

async function query(sql: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: cluster.url() })
  client.on('error', () => undefined) // the tests end servers and connections
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(sql, [...values])).rows
  } finally {
    await client.end()
  }
}

const close = async (): Promise<void> => {
  await cluster.stop('immediate')
  removeFolder(folder)
}

/** The prompt is a name: its command waits for a file with that name. `talk` needs no tool. */
const rig = await shared(
  FleetRig.start(
    (asked, request) => {
      const name = String(asked.messages.findLast((message) => message.role === 'user')?.content ?? '')
      if (name === 'talk') return { text: 'word '.repeat(60), pauseMs: 25, pieceChars: 10 }
      const command = `echo ${name} >> effects; while [ ! -e ${name} ]; do sleep 0.1; done`
      return inOrder({ calls: [{ id: 'c1', tool: 'bash', arguments: { command } }] }, { text: 'done' })(asked, request)
    },
    Promise.resolve({ url: cluster.url(), query, close }),
  ),
)
const [a, b] = await Promise.all(['a', 'b'].map((name) => rig.daemon(name, LONG)))
assert.ok(a !== undefined && b !== undefined)
const owner = a
const inShared = { box: { workspace: rig.workspace } }

/** A turn whose command runs. */
async function running(name: string, first = owner): Promise<{ id: string; turnId: string; finish: () => void }> {
  const { id } = await first.api.session(inShared)
  const turnId = await first.api.prompt(id, name)
  await eventually(`the command of ${name} runs`, () => rig.effects().includes(name))
  return { id, turnId, finish: () => writeFileSync(join(rig.workspace, name), '') }
}

const FILLER = '00000000-0000-7000-8000-000000000000'

/** Takes the room that is left in the pages of a table whose disk is full. */
async function useUp(): Promise<void> {
  const client = new pg.Client({ connectionString: cluster.url() })
  await client.connect()
  const insert = `INSERT INTO events (session_id, seq, epoch, type, turn_id, body, hash) VALUES ($1, $2, 1, 'x', $1, '', '')`
  try {
    for (let seq = 1; ; seq += 1) await client.query(insert, [FILLER, seq])
  } catch (error) {
    assert.ok(error instanceof pg.DatabaseError && error.code === '53100', String(error))
  } finally {
    await client.end()
  }
}

test('PostgreSQL restarts after a crash: every turn keeps its owner, and nothing is lost', LIMIT, async () => {
  const { id, turnId, finish } = await running('restart')
  const before = await b.api.events(id, ({ type }) => type === 'tool-call')
  await cluster.stop('immediate')
  try {
    finish() // its result has to wait for the database
    const metrics = await a.api.call('GET', '/v1/health')
    assert.equal(metrics.status, 200, 'the daemon answers without its database')
  } finally {
    await cluster.start()
  }
  const events = await sameEverywhere([a, b], id, turnId)
  assert.deepEqual(events.slice(0, before.length), before)
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.ok(!types(events).includes('taken-over'))
  assert.deepEqual(rig.effects(), ['restart'])
})

test('a tail at another daemon keeps running when the connections for hints are closed', LIMIT, async () => {
  const { id } = await a.api.session()
  const tail = b.api.events(id)
  const turnId = await a.api.prompt(id, 'talk')
  await b.api.events(id, ({ type }) => type === 'text-delta')
  await query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %' OR query LIKE 'SELECT pg_notify(%'",
  )
  const events = await sameEverywhere([a, b], id, turnId)
  assert.deepEqual(await tail, events)
})

test('no connections are left: turns continue, and a new daemon says why it does not start', LIMIT, async () => {
  const { id, turnId, finish } = await running('crowded')
  const taken: pg.Client[] = []
  try {
    await eventually('no connection is left', async () => {
      const client = new pg.Client({ connectionString: cluster.url() })
      client.on('error', () => undefined)
      try {
        await client.connect()
      } catch {
        return true
      }
      taken.push(client)
      return false
    })
    const place = await rig.daemon('late', LONG).then(
      () => 'started',
      (error: unknown) => String(error),
    )
    assert.match(place, /database does not answer/)
    finish()
    await eventually('the turn has ended', async () => (await a.api.turn(turnId)).state === 'finished')
  } finally {
    await Promise.all(taken.map((client) => client.end()))
  }
  await sameEverywhere([a, b], id, turnId)
})

/** The turn that was left on a full disk, and a session that could not be prompted. */
let parked: { readonly id: string; readonly turnId: string; readonly idleId: string } | undefined

test("the database's disk is full: the turn waits, and prompts get 507 at every daemon", LIMIT, async (t) => {
  const disk = smallDisk(t, '2m')
  if (disk === undefined) return
  const { id, turnId, finish } = await running('full')
  const { id: idleId } = await a.api.session()
  chmodSync(dirname(disk.folder), 0o755)
  chownSync(disk.folder, NOBODY, NOBODY)
  await query(`CREATE TABLESPACE small LOCATION '${disk.folder}'`)
  await query('ALTER TABLE events SET TABLESPACE small')
  const free = disk.fill()
  try {
    await useUp()
    finish()
    await eventually('the turn is parked, if only in memory', async () => (await a.api.turn(turnId)).state === 'parked')
    for (const { api } of [a, b]) {
      const refused = await api.call('POST', `/v1/sessions/${idleId}/turns`, { prompt: 'talk' })
      assert.deepEqual([refused.status, refused.json['category']], [507, 'journal_full'])
    }
  } finally {
    free()
    await query('DELETE FROM events WHERE session_id = $1', [FILLER])
    await query('ALTER TABLE events SET TABLESPACE pg_default')
    await query('DROP TABLESPACE small')
  }
  parked = { id, turnId, idleId }
})

const BOUNCER = '/usr/sbin/pgbouncer'
const skip = existsSync(BOUNCER) ? false : 'PgBouncer is not installed here (Debian: apt-get install pgbouncer)'

describe('side by side', { concurrency: true }, () => {
  test('once there is space again, the turn and new prompts continue', LIMIT, async (t) => {
    if (parked === undefined) return t.skip('the test before this one could not fill a disk here')
    const { id, turnId, idleId } = parked
    const next = await b.api.prompt(idleId, 'talk')
    assert.equal((await sameEverywhere([a, b], idleId, next)).at(-1)?.type, 'turn-end')
    assert.equal((await sameEverywhere([a, b], id, turnId)).at(-1)?.type, 'turn-end')
    assert.equal(rig.effects().filter((line) => line === 'full').length, 1)
  })

  test(
    'the answers to fifty commits are lost: every event is there once, and no turn loses its owner',
    LIMIT,
    async () => {
      const cut = await rig.proxied('cut', LONG)
      let cuts = 0
      let isNext = true
      cut.toStore.cutAnswerTo = (question) => {
        if (!isAppend(question) || cuts === 50) return false
        isNext = !isNext // its repetition gets through
        if (!isNext) cuts += 1
        return !isNext
      }
      const { id } = await cut.api.session(inShared)
      const names: string[] = []
      const turns: string[] = []
      while (cuts < 50) {
        const name = `cut${turns.length}`
        names.push(name)
        writeFileSync(join(rig.workspace, name), '') // its command does not wait
        for (const prompt of [name, 'talk']) {
          const turnId = await cut.api.prompt(id, prompt)
          await cut.api.ended(id, turnId)
          turns.push(turnId)
        }
      }
      const events = await sameEverywhere([a, b, cut], id, turns.at(-1) ?? '')
      const ends = events.filter(isTerminal)
      assert.deepEqual(
        ends.map(({ turnId, type }) => `${turnId} ${type}`),
        turns.map((turnId) => `${turnId} turn-end`),
      )
      assert.ok(!types(events).includes('taken-over'))
      assert.deepEqual(
        rig.effects().filter((line) => line.startsWith('cut')),
        names,
      )
      const [row] = await query('SELECT barrier FROM daemons WHERE boot_id = $1', [cut.bootId])
      assert.ok(
        Number(row?.['barrier']) >= 25,
        'each was believed behind another commit only; a few repetitions were cut, too',
      )
      await cut.program.stop()
    },
  )

  test('a slow database slows turns down, and costs no owner', LIMIT, async () => {
    const slow = await rig.proxied('slow', ['--lease-ms', '12000'])
    const leaseUntil = async (): Promise<number> =>
      Number((await query("SELECT extract(epoch FROM lease_until) AS at FROM daemons WHERE name = 'slow'"))[0]?.['at'])
    let passed = 0
    slow.toStore.delayMs = () => (++passed % 20 === 0 ? 2_000 : 10)
    const { id } = await slow.api.session()
    const turnId = await slow.api.prompt(id, 'talk')
    const events = await sameEverywhere([a, b], id, turnId)
    assert.equal(events.at(-1)?.type, 'turn-end')
    assert.ok(!types(events).includes('taken-over'))
    assert.ok(passed >= 20, 'an answer was late')
    const before = await leaseUntil()
    await eventually('its lease is renewed, however slowly', async () => (await leaseUntil()) > before)
    const [row] = await query('SELECT count(*) AS dead FROM daemons WHERE boot_id = $1 AND state = $2', [
      slow.bootId,
      'dead',
    ])
    assert.equal(Number(row?.['dead']), 0)
    slow.toStore.delayMs = 0
    await slow.program.stop()
  })

  test(
    "a daemon whose clock is ten minutes fast, or slow, writes the fleet's time and keeps deadlines",
    LIMIT,
    async () => {
      const loaded = { NODE_OPTIONS: `--import=${new URL('../../test/kit/skewed-clock.mjs', import.meta.url).href}` }
      const clock = async (): Promise<number> =>
        Number((await query('SELECT extract(epoch FROM clock_timestamp()) AS at'))[0]?.['at'])
      await Promise.all(
        [600_000, -600_000].map(async (skewMs) => {
          const skewed = await rig.daemon(`skewed by ${skewMs}`, LONG, { ...loaded, SKEW_MS: String(skewMs) })
          const from = await clock()
          const { id } = await skewed.api.session({ policy: { deadlineMs: 300_000 } }) // less than the clocks differ
          const turnId = await skewed.api.prompt(id, 'talk')
          const events = await sameEverywhere([a, skewed], id, turnId)
          assert.equal(events.at(-1)?.type, 'turn-end')
          const to = await clock()
          for (const { at } of events) {
            const seconds = Date.parse(at) / 1_000
            assert.ok(seconds > from - 60 && seconds < to + 60, `${at} is not the fleet's time`)
          }
          assert.ok(!types(events).includes('taken-over'))
          const short = await skewed.api.session({ ...inShared, policy: { deadlineMs: 1_500 } })
          const late = await skewed.api.prompt(short.id, `late${skewMs}`)
          const end = (await sameEverywhere([a, skewed], short.id, late)).at(-1)
          assert.equal(
            end?.type === 'turn-error' && end.category,
            'deadline_exceeded',
            'its deadline passes as it should',
          )
          await skewed.program.stop()
        }),
      )
    },
  )

  test(
    'behind PgBouncer in transaction mode, daemons serve, cancel and take over as usual',
    { ...LIMIT, skip },
    async (t) => {
      const port = await closedPort()
      const config = join(folder, 'pgbouncer.ini')
      writeFileSync(join(folder, 'users.txt'), '"postgres" ""\n', { mode: 0o644 })
      writeFileSync(
        config,
        `[databases]\n* = host=127.0.0.1 port=${cluster.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${port}\nunix_socket_dir =\nauth_type = trust\nauth_file = ${join(folder, 'users.txt')}\npool_mode = transaction\ndefault_pool_size = 10\nignore_startup_parameters = extra_float_digits\n`,
        { mode: 0o644 },
      )
      const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
      const bouncer = new Program(BOUNCER, [config], user)
      t.after(() => bouncer.kill('SIGKILL'))
      const through = ['--store', `postgres://postgres@127.0.0.1:${port}/postgres`] // with a short lease: one of them is killed
      const [c, d] = await Promise.all(['c', 'd'].map((name) => rig.daemon(name, through)))
      assert.ok(c !== undefined && d !== undefined)
      const { id } = await c.api.session(inShared)
      const turnId = await d.api.prompt(id, 'bounced')
      await eventually('the command runs', () => rig.effects().includes('bounced'))
      writeFileSync(join(rig.workspace, 'bounced'), '')
      const events = await sameEverywhere([a, c, d], id, turnId)
      assert.equal(events.at(-1)?.type, 'turn-end')
      const cancelled = await running('cancelled', c)
      assert.equal((await d.api.call('POST', `/v1/turns/${cancelled.turnId}/cancel`)).status, 202)
      await sameEverywhere([a, c, d], cancelled.id, cancelled.turnId)
      const orphaned = await running('orphaned', c)
      await c.program.kill('SIGKILL')
      orphaned.finish()
      const rest = await sameEverywhere([a, d], orphaned.id, orphaned.turnId)
      assert.ok(types(rest).includes('taken-over') && rest.at(-1)?.type === 'turn-end', types(rest).join())
      assert.equal(rig.effects().filter((line) => line === 'orphaned').length, 1)
      await d.program.stop()
    },
  )
})
