/** A shared database that is asked for what cannot be there, and a daemon whose own folder is damaged or full. */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempFolder } from '../../../test/kit/folder.ts'
import { eventually } from '../../../test/kit/wait.ts'
import { opened, query } from './conformance/shared-database.ts'

test('a daemon, a runner or a fault that cannot have been named is not found, as any unknown one', async (t) => {
  const store = await opened(t)
  const { runners } = store
  assert.ok(runners !== undefined)
  for (const name of ['nobody', 'a\0b', '']) {
    assert.equal(await store.drainDaemon(name), false)
    assert.equal(await runners.get(name), undefined)
    assert.equal(await runners.setState(name, 'draining'), false)
    assert.deepEqual(await store.faultGroups({ fingerprint: name, limit: 1, hoursFrom: '' }), [])
  }
})

test('a daemon starts although the note of its last boot was cut off, and the note is whole afterwards', async (t) => {
  const folder = join(tempFolder(t), 'daemon')
  mkdirSync(folder)
  for (const cut of ['', '0198c2a4-91', '\0'.repeat(37)]) {
    writeFileSync(join(folder, 'boot'), cut)
    const store = await opened(t, { folder })
    assert.equal(readFileSync(join(folder, 'boot'), 'utf8'), `${store.lease.bootId}\n`)
    await store.close()
  }
})

test('a daemon that was declared dead comes back although it cannot note its new boot', async (t) => {
  const folder = join(tempFolder(t), 'daemon')
  const store = await opened(t, { folder, leaseMs: 1_500 })
  const { bootId } = store.lease
  rmSync(join(folder, 'boot'))
  mkdirSync(join(folder, 'boot', 'in the way'), { recursive: true }) // as a full disk: nothing can be written there
  await query("UPDATE daemons SET state = 'dead' WHERE boot_id = $1", [bootId])
  await eventually(
    'it is a new daemon, and holds its lease',
    () => store.lease.bootId !== bootId && store.lease.isHeld(),
  )
  assert.equal((await store.daemons()).find((daemon) => daemon.bootId === store.lease.bootId)?.state, 'live')
})
