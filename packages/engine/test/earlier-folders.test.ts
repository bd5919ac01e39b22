/** Folders that earlier versions opened to every caller: only sessions from before keep them. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, realpathSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { FOLDER_KEY, isSigned, signFolders } from '@breakfall/wire/node'
import { EarlierFolders, takeInEarlierFolders } from '../src/runner/earlier-folders.ts'
import { rmSync } from 'node:fs'

test('the lists of an earlier version become signatures for its sessions alone, and what is too wide is named and dropped', (t) => {
  const stateDir = realpathSync(mkdtempSync(join(tmpdir(), 'breakfall-earlier-')))
  t.after(() => rmSync(stateDir, { recursive: true }))
  const [folder, data] = ['project', 'da\nta'].map((name) => join(stateDir, name)) as [string, string]
  for (const path of [folder, data]) mkdirSync(path)
  writeFileSync(join(stateDir, 'workspaces'), `${folder}\n/etc\n${folder}\n`)
  writeFileSync(join(stateDir, 'mounts'), `"/:ro"\n${JSON.stringify(`${data}:ro`)}\n"half`)
  assert.deepEqual(takeInEarlierFolders(stateDir, '2026-06-01'), ['/etc', '/:ro'])
  assert.deepEqual(takeInEarlierFolders(stateDir, '2026-07-01'), [], 'once')
  assert.ok(!existsSync(join(stateDir, 'workspaces')) && !existsSync(join(stateDir, 'mounts')))

  const earlier = new EarlierFolders(stateDir)
  const box = { workspace: folder, mounts: [{ path: data }] }
  const { grant = '' } = earlier.signed(box, '2026-05-01')
  const signed = { workspace: folder, mounts: [{ path: data, mode: 'ro' }] } as const
  const key = join(stateDir, 'runner', FOLDER_KEY)
  assert.ok(isSigned(key, signed, grant))
  assert.ok(!isSigned(key, { ...signed, mounts: [{ path: data, mode: 'rw' }] }, grant))
  assert.ok(!isSigned(key, { ...signed, mounts: [] }, grant))
  assert.ok(!isSigned(key, { ...signed, workspace: stateDir }, grant))
  assert.notEqual(signFolders(`${key}.other`, signed), grant, 'another key signs otherwise')
  for (const [other, at] of [
    [box, '2026-06-02'],
    [{ workspace: '/etc' }, '2026-05-01'],
    [{ mounts: [{ path: '/' }] }, '2026-05-01'],
    [{ workspace: folder, mounts: [{ path: data, mode: 'rw' }] }, '2026-05-01'],
  ] as const)
    assert.equal(
      earlier.signed({ ...other, mounts: [...('mounts' in other ? other.mounts : [])] }, at).grant,
      undefined,
    )
})
