/** A damaged state folder: a run works anyway or names the damaged file, and leaves nothing running. */
import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
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

for (const [what, ends, ...damages] of [
  [
    'what a run can make again',
    WORKS,
    ['daemon.json', 'garbage'],
    ['runner/runner.json', 'empty'],
    ['runner.grants.json', 'garbage'],
    ['workspaces', 'folder'],
  ],
  ["the runner's file, which is a folder", WORKS, ['runner/runner.json', 'folder']],
  ["the daemon's file, which is a folder", NAMED, ['daemon.json', 'folder']],
  ['the journal', CORRUPT, ['journal/owner.db', 'garbage']],
] as const)
  test(`damaged: ${what}; a run ends with the documented outcome and leaves nothing running`, LIMIT, async () => {
    await using desk = await Desk.start([ask([bash('echo once >> ledger')]), say('done')])
    for (const [name, how] of damages) {
      const file = join(desk.stateDir, name)
      mkdirSync(join(file, '..'), { recursive: true, mode: 0o700 })
      DAMAGE[how](file)
    }
    const { code, stderr } = await whole(desk.begin())
    assert.match(`${code} ${stderr}`, ends)
    assert.deepEqual(desk.lines('ledger'), code === 0 ? ['once'] : [])
    assert.deepEqual(desk.place.leftovers(), [])
  })

test('a damaged journal is called damaged by every command, and doctor is not ready', LIMIT, async () => {
  await using desk = await Desk.start([say('an answer')])
  await desk.run()
  const folder = join(desk.stateDir, 'journal')
  const [file, intact] = [join(folder, 'journal.db'), join(desk.place.home, 'intact')]
  cpSync(folder, intact, { recursive: true })
  const { json } = await desk.command(['sessions', '--json'])
  const id = String(json[0]?.['id'])
  const healthy = await desk.command(['doctor'])
  assert.match(healthy.lines.join('\n'), /✓ journals +1 journals? read to the end, and intact/)

  const tail = ['tail', '--no-follow', id]
  const damages = [
    ['an event', () => edit(file, `UPDATE events SET body=replace(body, 'an', 'no')`), tail, ['export', id]],
    ['a view of a turn', () => edit(file, "UPDATE turns SET view='{'"), ['show', id]],
    ['its pages', () => overwrite(file), ['sessions']],
  ] as const
  for (const [what, damage, ...commands] of damages) {
    rmSync(folder, { recursive: true })
    cpSync(intact, folder, { recursive: true })
    damage()
    const doctor = await desk.command(['doctor', '--json'])
    const found = doctor.json.filter(({ check, verdict }) => check === 'journals' && verdict === 'bad')
    assert.ok(found.length > 0, `${what}: ${JSON.stringify(doctor.json)}`)
    assert.equal(doctor.code, 1, what)
    for (const args of commands) {
      const { code, lines, stderr } = await desk.command(args)
      assert.equal(code, 1, what)
      assert.match(stderr, /journal_corrupt/, what)
      assert.doesNotMatch(stderr, /Something unexpected|"level":/, `${args[0]}: stderr has sentences, not a log`)
      if (args[0] === 'export') assert.deepEqual(lines, [], 'no part of a bundle looks like one')
    }
  }

  rmSync(folder, { recursive: true })
  cpSync(intact, folder, { recursive: true })
  edit(file, `UPDATE events SET body='{'`)
  const server = desk.start(['up', '--port', '0', '--json'])
  await server.seen(({ event }) => event === 'listening')
  const { code, stderr } = await desk.command(tail)
  assert.equal(code, 1, 'a daemon refuses it as well')
  assert.match(stderr, /journal_corrupt/)
  assert.doesNotMatch(stderr, /stopped answering/)
  server.child.kill('SIGTERM')
  await server.ended
})

function edit(file: string, sql: string): void {
  const db = new DatabaseSync(file)
  db.exec(sql)
  db.close()
}

/** The start of each page but the first two. */
function overwrite(file: string): void {
  const bytes = readFileSync(file)
  for (let at = 8_192; at < bytes.length; at += 4_096) bytes.fill(0xfe, at, at + 2_000)
  writeFileSync(file, bytes)
}
