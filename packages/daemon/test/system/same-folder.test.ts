/** Turns in the same folder know of each other: the second waits, shares the folder, or is refused. */
import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempFolder } from '../../../../test/kit/folder.ts'
import { LIMIT } from '../../../../test/kit/wait.ts'
import { overlaps } from '../../../engine/src/session/folders.ts'
import { rig } from '../support/setup.ts'
import { types } from '../support/api.ts'

test('a folder inside another one is the same place, and a folder with a longer name is not', () => {
  assert.ok(overlaps('/a/b', '/a/b') && overlaps('/a', '/a/b') && overlaps('/a/b', '/a') && overlaps('', '/a'))
  assert.ok(!overlaps('/a/b', '/a/bc') && !overlaps('/a/b', '/c'))
})

test(
  'a second turn in the folder of a running one waits, can be cancelled, shares, is refused, and survives a restart',
  LIMIT,
  async (t) => {
    const folder = tempFolder(t)
    const [work, inside, link] = [join(folder, 'work'), join(folder, 'work', 'inside'), join(folder, 'link')]
    mkdirSync(inside, { recursive: true })
    symlinkSync(work, link)
    let release = (): void => undefined
    const until = new Promise<void>((resolve) => {
      release = resolve
    })
    const options = { runner: { allowWorkspace: [folder] } }
    const first = await rig(
      t,
      ({ messages }) => (messages.at(-1)?.content === 'slow' ? { text: 'slow', until } : { text: 'quick' }),
      options,
    )
    const sessionIn = async (workspace: string): Promise<string> =>
      (await first.api.session({ box: { workspace }, tools: [] })).id
    const holder = await sessionIn(work)
    const slow = await first.api.prompt(holder, 'slow')

    const [waiting, cancelled, sharing, refused] = [
      await sessionIn(inside),
      await sessionIn(link),
      await sessionIn(work),
      await sessionIn(work),
    ]
    const wait = { sameFolder: 'wait' }
    const waits = await first.api.prompt(waiting, 'one', wait)
    const [queued] = await first.api.events(waiting, ({ type }) => type === 'turn-queued')
    assert.deepEqual(queued?.type === 'turn-queued' ? queued.behind : undefined, {
      sessionId: holder,
      turnId: slow,
      workspace: work,
    })
    const gone = await first.api.prompt(cancelled, 'two', wait)
    await first.api.call('POST', `/v1/turns/${gone}/cancel`, {})
    assert.deepEqual(types(await first.api.ended(cancelled, gone)), ['turn-queued', 'turn-error'])
    const shares = await first.api.prompt(sharing, 'three', { sameFolder: 'share' })
    assert.equal((await first.api.ended(sharing, shares)).at(-1)?.type, 'turn-end')
    const refusal = await first.api.call('POST', `/v1/sessions/${refused}/turns`, { prompt: 'x', sameFolder: 'refuse' })
    assert.deepEqual([refusal.status, refusal.json['category']], [409, 'session_busy'])
    assert.match(String(refusal.json['detail']), /is working in .*work, so nothing started here/)
    assert.equal((await first.api.turn(waits)).state, 'queued')

    const { api } = await first.restart()
    assert.equal((await api.turn(waits)).state, 'queued', 'it still waits')
    release()
    assert.equal((await api.ended(holder, slow)).at(-1)?.type, 'turn-end')
    assert.equal((await api.ended(waiting, waits)).at(-1)?.type, 'turn-end')
    const again = await api.prompt(refused, 'x', { sameFolder: 'refuse' })
    assert.equal((await api.ended(refused, again)).at(-1)?.type, 'turn-end', 'the folder is free again')
  },
)
