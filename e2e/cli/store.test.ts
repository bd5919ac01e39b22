/** Sessions of one machine move to a shared store, and a daemon there knows them. */
import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openSqliteStore } from '@breakfall/engine'
import { newDatabase } from '../../test/kit/postgres.ts'
import { LIMIT } from '../../test/kit/wait.ts'
import { appendOf, claimed } from '../../packages/engine/test/conformance/store-kit.ts'
import { Place } from '../breakfall.ts'

test('breakfall store moves a finished session to PostgreSQL, and "up --store" serves it', LIMIT, async () => {
  await using place = new Place()
  const database = await newDatabase()
  try {
    const journal = await openSqliteStore(join(place.stateDir, 'journal'))
    const session = await claimed(journal)
    await journal.append(appendOf(session, 0, ['1', '2']))
    await journal.close()
    const file = join(place.home, 'sessions.jsonl')
    const exported = await place.run(['store', 'export', file, '--json'])
    assert.equal(exported.code, 0, exported.stderr)
    assert.equal(statSync(file).mode & 0o077, 0)
    const events = exported.json.at(-1)?.['events']
    const again = await place.run(['store', 'export', file])
    assert.deepEqual([again.code, again.stderr.includes('the file exists already')], [2, true])
    const store = ['--store', database.url]
    for (const [name, why] of [
      ['nofile', /Cannot read .*nofile: there is no such file/],
      ['.', /it is a folder/],
    ] as const) {
      const refused = await place.run(['store', 'import', join(place.home, name), ...store])
      assert.equal(refused.code, 2)
      assert.match(refused.stderr, why)
    }
    assert.equal((await place.run(['store', 'import', file, ...store])).code, 0)
    const checked = await place.run(['store', 'check', ...store, '--json'])
    assert.deepEqual([checked.code, checked.json.at(-1)?.['events'], events], [0, 2, 2])
    assert.equal((await place.run(['store', 'migrate'])).code, 2, 'a database has to be named')
    assert.equal((await place.run(['store', 'mend', ...store])).code, 2)
    const up = place.start(['up', ...store, '--name', 'here', '--lease-ms', '2000', '--port', '0', '--json'])
    const listening = await up.listening()
    assert.equal(listening['name'], 'here')
    assert.match(String(listening['bootId']), /^[0-9a-f-]{36}$/)
    const listed = await place.run(['sessions', '--json'])
    assert.equal(listed.code, 0, listed.stderr)
    assert.ok(listed.lines.join().includes(session.id))
    up.child.kill('SIGTERM')
    assert.equal((await up.ended).code, 0)
  } finally {
    await database.close()
  }
})
