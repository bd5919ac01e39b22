/** The database that `breakfall fleet` starts listens where every user of the machine can connect. */
import assert from 'node:assert/strict'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import pg from 'pg'
import { startPostgres } from '../../packages/cli/src/fleet/postgres.ts'
import { atEnd, tempFolder } from '../../test/kit/folder.ts'
import { LIMIT } from '../../test/kit/wait.ts'

test('the database of a fleet lets nobody in without its password', LIMIT, async (t) => {
  const folder = tempFolder(t)
  chmodSync(folder, 0o711)
  const postgres = await startPostgres(join(folder, 'postgres'))
  atEnd(t, () => postgres.stop())
  const userOf = async (url: URL): Promise<unknown> => {
    const client = new pg.Client({ connectionString: url.href })
    try {
      await client.connect()
      return (await client.query<{ name: string }>('SELECT current_user AS name')).rows[0]?.name
    } finally {
      await client.end()
    }
  }
  const url = new URL(postgres.url)
  assert.equal(await userOf(url), 'postgres')
  for (const password of ['', 'postgres']) {
    url.password = password
    await assert.rejects(userOf(url), /password/)
  }
})
