/** `breakfall store` as an operator runs it against a shared database: what it says, and what its last line of JSON says. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openDaemon } from '../../packages/engine/test/conformance/postgres-adapter.ts'
import { appendOf, claimed } from '../../packages/engine/test/conformance/store-kit.ts'
import { tempFolder } from '../../test/kit/folder.ts'
import { newDatabase } from '../../test/kit/postgres.ts'
import { LIMIT } from '../../test/kit/wait.ts'
import { Place } from '../breakfall.ts'

test('a copy of a database is adopted once; where nothing is to be adopted, the command says so', LIMIT, async () => {
  await using place = new Place()
  const database = await newDatabase()
  try {
    const store = ['--store', database.url]
    const adopt = async () => {
      const { code, json } = await place.run(['store', 'adopt', '--json', ...store])
      return [code, json.at(-1)]
    }
    assert.equal((await place.run(['store', 'migrate', ...store])).code, 0)
    assert.deepEqual(await adopt(), [0, { event: 'result', outcome: 'finished', adopted: false }])
    assert.match((await place.run(['store', 'adopt', ...store])).lines.join(), /nothing to do/)
    await database.query(`UPDATE fleet SET system_id = 'other'`)
    assert.deepEqual(await adopt(), [0, { event: 'result', outcome: 'finished', adopted: true }])
    assert.deepEqual(await adopt(), [0, { event: 'result', outcome: 'finished', adopted: false }])
  } finally {
    await database.close()
  }
})

test('a check that finds a damaged event has failed, in its exit code and in its last line', LIMIT, async (t) => {
  await using place = new Place()
  const database = await newDatabase()
  try {
    const store = await openDaemon(database.url, tempFolder(t))
    const session = await claimed(store)
    await store.append(appendOf(session, 0, ['"a"', '"b"']))
    await store.close()
    await database.query(`UPDATE events SET body = '"c"' WHERE seq = 1`)
    const { code, json } = await place.run(['store', 'check', '--json', '--store', database.url])
    const { outcome, sessions, problems } = json.at(-1) ?? {}
    assert.deepEqual([code, outcome, sessions], [1, 'failed', 1])
    assert.match(String(problems), new RegExp(session.id))
  } finally {
    await database.close()
  }
})
