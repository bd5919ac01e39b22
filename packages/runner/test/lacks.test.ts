/** What a machine lacks, and how to get it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lacksOf, type MachineFacts } from '../src/isolation/missing-capabilities.ts'

const everything: MachineFacts = {
  level: 'bwrap',
  because: null,
  isRoot: false,
  seccomp: true,
  keyring: true,
  sharedNetwork: true,
  nsenter: '/usr/bin/nsenter',
  ip: '/usr/sbin/ip',
  perl: '/usr/bin/perl',
  setpriv: null,
  missingControllers: [],
  appArmorRestricts: false,
}
const lacks = (facts: Partial<MachineFacts>): string[] =>
  lacksOf({ ...everything, ...facts }).map(({ name, because, fix }) => `${name}: ${because}: ${fix}`)

test('a machine that offers everything lacks nothing', () => {
  assert.deepEqual(lacks({}), [])
})

test('each lack has a reason of this machine and a way to get it', () => {
  assert.match(
    lacks({ sharedNetwork: false, nsenter: null })[0] ?? '',
    /^sharedNetwork: nsenter is not on the PATH: install util-linux$/,
  )
  assert.match(lacks({ sharedNetwork: false, nsenter: '/bin/busybox' })[0] ?? '', /busybox.*install util-linux/)
  assert.match(lacks({ sharedNetwork: false, appArmorRestricts: true })[0] ?? '', /AppArmor.*apparmor_parser -r/)
  assert.match(lacks({ sharedNetwork: false })[0] ?? '', /container/)
  assert.match(
    lacks({ level: null, because: 'no namespaces', appArmorRestricts: true })[0] ?? '',
    /^sandbox: no namespaces: Ubuntu/,
  )
  assert.match(lacks({ level: 'process', because: 'bwrap is not on the PATH' })[0] ?? '', /install bubblewrap/)
  const all = lacks({ seccomp: false, keyring: false, ip: null, perl: null, missingControllers: ['memory'] })
  assert.deepEqual(
    all.map((line) => line.split(':')[0]),
    ['seccomp', 'keyring', 'refused addresses', 'guards', 'memory limit'],
  )
  assert.match(lacks({ isRoot: true })[0] ?? '', /^workspaces of other owners: setpriv/)
})
