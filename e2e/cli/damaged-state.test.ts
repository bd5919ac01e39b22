/** A damaged state folder: a run works anyway or names the damaged file, and leaves nothing running. */
import assert from 'node:assert/strict'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Desk, whole } from './desk.ts'
import { ask, bash, say } from '../answers.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const DAMAGE = {
  empty: (file: string) => writeFileSync(file, ''),
  garbage: (file: string) => writeFileSync(file, Buffer.alloc(4096, 0xfe)),
  folder: (file: string) => mkdirSync(file, { recursive: true }),
} as const

const WORKS = /^0 /
const CORRUPT = /^1 [^]*breakfall: The journal is damaged[^]*journal_corrupt: file is not a database/ // not "another daemon runs"
const NAMED = /^2 [^]*breakfall: Cannot use \S.*daemon\.json: it is a folder; remove it/

for (const [name, how, ends] of [
  ['daemon.json', 'garbage', WORKS],
  ['daemon.json', 'folder', NAMED],
  ['runner/runner.json', 'empty', WORKS],
  ['runner/runner.json', 'folder', WORKS],
  ['runner.grants.json', 'garbage', WORKS],
  ['workspaces', 'folder', WORKS],
  ['journal/owner.db', 'garbage', CORRUPT],
] as const)
  test(
    `${name} is damaged (${how}): a run ends with the documented outcome and leaves nothing running`,
    LIMIT,
    async () => {
      await using desk = await Desk.start([ask([bash('echo once >> ledger')]), say('done')])
      const file = join(desk.stateDir, name)
      mkdirSync(join(file, '..'), { recursive: true, mode: 0o700 })
      DAMAGE[how](file)
      const { code, stderr } = await whole(desk.begin())
      assert.match(`${code} ${stderr}`, ends)
      assert.deepEqual(desk.lines('ledger'), code === 0 ? ['once'] : [])
      assert.deepEqual(desk.place.leftovers(), [])
      rmSync(file, { recursive: true, force: true })
    },
  )
