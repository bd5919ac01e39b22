/** One copied /etc in place of two dozen mounts: boxes see the same. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { bwrapOptions } from '../../src/isolation/bwrap-args.ts'
import { EtcCopy } from '../../src/isolation/etc-copy.ts'
import { boxView } from '../../src/isolation/mount-layout.ts'
import { inProcess, until, withoutBwrap } from '../kit.ts'

const SEE = `cd /etc; find . -type f -exec sha256sum {} + 2>&1 | sort; find . -type l -printf '%p -> %l\\n' | sort; find . -printf '%M %p\\n' | grep -v '^[dl]' | sort; echo x >hosts; echo "wrote $?"`
const MOUNTS = 'grep -c " /etc" /proc/self/mountinfo'

test(
  'a box sees the same files with the copy as without, read-only, by fewer mounts',
  { skip: withoutBwrap },
  async (t) => {
    const without = await inProcess(t, { etcCopyAfterMs: 3_600_000 })
    await without.box({ id: 'b1' })
    const before = await without.run('b1', SEE)
    const mountsBefore = Number((await without.run('b1', MOUNTS)).stdout)
    const runner = await inProcess(t, { etcCopyAfterMs: 0 })
    await runner.box({ id: 'b1' })
    const mountsAfter = await until(
      async () => Number((await runner.run('b1', MOUNTS)).stdout),
      (count) => count < mountsBefore,
    )
    assert.ok(mountsAfter <= 5, `${mountsBefore} before, ${mountsAfter} after`)
    const after = await runner.run('b1', SEE)
    assert.equal(after.stdout, before.stdout)
    assert.match(after.stdout, /wrote [1-9]/)
  },
)

test('a copy is made once, found by the next runner, and is not there on a full disk', async (t) => {
  const stateDir = tempFolder(t)
  let nowMs = 0
  const plan = { stateDir, files: ['/etc/hosts', '/etc/nsswitch.conf', '/etc/missing'], afterMs: 0, nowMs: () => nowMs }
  const first = new EtcCopy(plan)
  assert.equal(first.current.folder, undefined)
  await first.copied
  const { folder, files } = first.current
  assert.deepEqual(files, ['/etc/hosts'])
  assert.deepEqual(readdirSync(folder ?? '').toSorted(), ['group', 'hosts', 'nsswitch.conf', 'passwd', 'resolv.conf'])
  assert.equal(new EtcCopy(plan).current.folder, folder)
  nowMs = 10_000
  assert.equal(first.current.folder, folder)
  const nowhere = new EtcCopy({ ...plan, stateDir: join(stateDir, 'etc', 'file\0') })
  assert.equal(nowhere.current.folder, undefined)
  await nowhere.copied
  assert.deepEqual(nowhere.current, { folder: undefined, files: plan.files })
})

test('a file of /etc that is gone since the start keeps no command from running', () => {
  const folders = {
    workspace: { at: '/workspace', host: '/w', kind: 'private' as const },
    home: { at: '/home/box', host: '/h' },
    etc: { folder: undefined, files: ['/etc/resolv.conf', '/etc/hosts'] },
    tmp: '/t',
    more: [],
    resolv: undefined,
    passwd: '/p',
    group: '/g',
    nothing: '/n',
  }
  const layout = { folders: ['/usr'], links: new Map(), etc: [], masked: [], homePath: [] }
  const view = boxView('bwrap', layout, folders)
  const user = { kind: 'userns' as const, uid: 0, gid: 0, disableUserns: false }
  const options = bwrapOptions({ view, user, network: 'none', cwd: '/', environment: {} }).join(' ')
  assert.match(options, /--ro-bind-try \/etc\/resolv\.conf \/etc\/resolv\.conf --ro-bind-try \/etc\/hosts/)
})
