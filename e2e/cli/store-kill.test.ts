/** `breakfall store …` is killed (-9) in the middle: the database has its old or its new state, and a repeat succeeds. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import { checkStore, migrateStore, openSqliteStore } from '@breakfall/engine'
import { appendOf, claimed } from '../../packages/engine/test/conformance/store-kit.ts'
import { type Database, newDatabase } from '../../test/kit/postgres.ts'
import { TcpProxy } from '../../test/kit/tcp-proxy.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { Place } from '../breakfall.ts'

let place: Place
let exported: string
before(async () => {
  place = new Place()
  const journal = await openSqliteStore(join(place.stateDir, 'journal'))
  for (let n = 0; n < 3; n += 1) await journal.append(appendOf(await claimed(journal), 0, ['"a"', '"b"']))
  await journal.close()
  exported = join(place.home, 'sessions.jsonl')
  assert.equal((await place.run(['store', 'export', exported])).code, 0)
})
after(() => place[Symbol.asyncDispose]())

/** `lost`: the statement during which the process dies does not reach the server; `sent`: it does. */
type Fate = 'lost' | 'sent'

/** Runs it until it has sent the `count`th statement that contains `sql`, and kills it then. */
async function killedAt(action: readonly string[], url: string, sql: string, fate: Fate, count = 1): Promise<void> {
  const way = new URL(url)
  await using proxy = await TcpProxy.start(Number(way.port))
  way.port = String(proxy.port)
  const program = place.start(['store', ...action, '--store', way.href])
  let left = count
  proxy.cutAnswerTo = (question) => {
    if (!question.includes(sql)) return false
    left -= 1
    if (left !== 0) return false
    if (fate === 'lost') proxy.up = 'drop'
    program.child.kill('SIGKILL')
    return false // what was sent is carried out
  }
  const { code, stderr } = await program.ended
  assert.deepEqual([code, left], [null, 0], stderr)
}

/** What the server still does for a process that is gone. */
const quiet = (database: Database): Promise<unknown> =>
  eventually('no statement of the killed process is left', async () => {
    const others = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'`
    return (await database.query(others)).length === 0
  })

async function withDatabase(act: (database: Database) => Promise<void>): Promise<void> {
  const database = await newDatabase()
  try {
    await act(database)
  } finally {
    await database.close()
  }
}

test('side by side', { ...LIMIT, concurrency: true }, async (t) => {
  for (const fate of ['lost', 'sent'] as const) {
    void t.test(`a killed "store migrate" has made all tables or none (its statement is ${fate})`, () =>
      withDatabase(async (database) => {
        await killedAt(['migrate'], database.url, 'CREATE TABLE', fate)
        await quiet(database)
        const tables = await database.query(`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)
        const again = await place.run(['store', 'migrate', '--store', database.url, '--json'])
        const before = again.json.at(-1)?.['before']
        assert.deepEqual([again.code, before], [0, tables.length === 0 ? 0 : 3], again.stderr)
        if (fate === 'lost') assert.equal(before, 0)
        const made = await database.query(`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)
        assert.ok(tables.length === 0 || tables.length === made.length, JSON.stringify(tables))
        assert.deepEqual((await checkStore({ url: database.url })).problems, [])
      }),
    )

    void t.test(`a killed "store adopt" starts one new era (its statement is ${fate})`, () =>
      withDatabase(async (database) => {
        await migrateStore(database.url)
        const fleet = async () => (await database.query('SELECT system_id, restores FROM fleet'))[0]
        const ours = (await fleet())?.['system_id']
        await database.query(`UPDATE fleet SET system_id = 'other'`)
        await killedAt(['adopt'], database.url, 'UPDATE fleet', fate)
        await quiet(database)
        const left = await fleet()
        if (left?.['system_id'] === 'other') assert.equal(left['restores'], 0)
        else assert.deepEqual([left, fate], [{ system_id: ours, restores: 1 }, 'sent'])
        assert.equal((await place.run(['store', 'adopt', '--store', database.url])).code, 0)
        assert.deepEqual(await fleet(), { system_id: ours, restores: 1 }, 'a repeat counts once')
      }),
    )
  }

  for (const { sql, fate, count } of [
    { sql: 'INSERT INTO events', fate: 'sent', count: 2 },
    { sql: 'COMMIT', fate: 'lost', count: 2 },
    { sql: 'COMMIT', fate: 'sent', count: 2 },
  ] as const) {
    void t.test(`a killed "store import" leaves whole sessions (${sql} is ${fate})`, () =>
      withDatabase(async (database) => {
        await migrateStore(database.url)
        await killedAt(['import', exported], database.url, sql, fate, count)
        await quiet(database)
        const { sessions, events, problems } = await checkStore({ url: database.url })
        assert.deepEqual([problems, events], [[], sessions * 2])
        assert.ok(sessions === 1 || (sessions === 2 && fate === 'sent' && sql === 'COMMIT'), `${sessions} sessions`)
        const again = await place.run(['store', 'import', exported, '--store', database.url, '--json'])
        assert.deepEqual([again.code, again.json.at(-1)?.['skipped']], [0, sessions], again.stderr)
        const complete = await checkStore({ url: database.url })
        assert.deepEqual([complete.sessions, complete.events, complete.problems], [3, 6, []])
      }),
    )
  }

  void t.test('a killed "store import" into a state folder leaves whole sessions', async () => {
    const env = { XDG_STATE_HOME: join(place.home, 'other') }
    const stateDir = join(env.XDG_STATE_HOME, 'breakfall')
    const lines = readFileSync(exported, 'utf8').split('\n')
    const program = place.start(['store', 'import', '-'], env, null)
    program.child.stdin?.write(`${lines.slice(0, 3).join('\n')}\n`)
    await eventually('two sessions are there', () => {
      try {
        const db = new DatabaseSync(join(stateDir, 'journal', 'journal.db'), { readOnly: true })
        const [row] = db.prepare('SELECT count(*) AS count FROM sessions').all()
        db.close()
        return row?.['count'] === 2
      } catch {
        return false // it is being made
      }
    })
    program.child.stdin?.write(lines[3]?.slice(0, 100))
    program.child.kill('SIGKILL')
    await program.ended
    assert.deepEqual((await checkStore({ stateDir })).problems, [])
    const again = await place.run(['store', 'import', exported, '--json'], env)
    assert.deepEqual([again.code, again.json.at(-1)?.['skipped']], [0, 2], again.stderr)
    const { sessions, events, problems } = await checkStore({ stateDir })
    assert.deepEqual([sessions, events, problems], [3, 6, []])
  })
})
