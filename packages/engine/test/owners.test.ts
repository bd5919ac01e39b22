/** What a claim answers. What it does to the rows is in `postgres-fleet.test.ts`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { Owners } from '../src/store/postgres/owners.ts'

const ID = '01890000-0000-7000-8000-000000000001'

test('a daemon that was declared dead asks for another attempt: it is a new daemon in a moment', async () => {
  const answers = [[], [{ live: false, newer: false }]]
  const pool = { query: () => Promise.resolve(answers.shift() ?? []) }
  const owners = new Owners(
    pool,
    () => ID,
    () => 1,
  )
  await assert.rejects(owners.claim(ID), (thrown) => {
    assert.ok(isFault(thrown))
    assert.deepEqual([thrown.category, thrown.report.next], ['journal_unreachable', 'retry'])
    assert.match(thrown.error, /others took over its work\. Nothing was done\. Send the request again/)
    return true
  })
})
