/** The pure parts of checkpoints: what git and find print, what a restore does, and whose a change was. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isInside, withSpan } from '../src/checkpoint/activity.ts'
import {
  decodeManifest,
  encodeManifest,
  findCommand,
  joinNul,
  type Manifest,
  manifestOf,
  parseFound,
  parseRawDiff,
  shown,
  splitNul,
} from '../src/checkpoint/listing.ts'
import { isEmptyPlan, namesIn, planRestore, previewOf, selection, unknownPaths } from '../src/checkpoint/plan.ts'

const NONE: Manifest = { files: new Map(), folders: new Map(), leftOut: [] }
const everything = (): boolean => true
const file = (oid: string, mode = '100644') => ({ mode, oid })

test('names with newlines and bytes that are no UTF-8 survive the way to git and back', () => {
  const paths = ['a\nb', Buffer.from([0x62, 0xff]).toString('latin1'), Buffer.from('ü').toString('latin1')]
  assert.deepEqual(splitNul(joinNul(paths)), paths)
  assert.deepEqual(paths.map(shown), ['a\nb', 'b�', 'ü'])
  const raw = Buffer.from(':100644 100755 aa bb M\0a\nb\0:000000 120000 00 cc A\0l\0:100644 000000 dd 00 D\0gone\0')
  assert.deepEqual(parseRawDiff(raw), [
    { path: 'a\nb', from: file('aa'), to: file('bb', '100755') },
    { path: 'l', from: null, to: file('cc', '120000') },
    { path: 'gone', from: file('dd'), to: null },
  ])
})

test('a manifest holds what git does not, and reads back unchanged', () => {
  const found = parseFound(
    Buffer.from('f 644 1 a\0f 600 1 b\nc\0f 755 1 x\0d 755 0 d\0d 700 0 p\0e 755 0 e\0u 0 9 secret\0s 644 0 pipe\0'),
  )
  assert.deepEqual(found.find(({ path }) => path === 'secret')?.isReadable, false)
  const manifest = manifestOf(found, ['secret', 'ignored/'])
  assert.deepEqual([...manifest.files], [['b\nc', 0o600]])
  assert.deepEqual([...manifest.folders.keys()], ['p', 'e'])
  assert.deepEqual(manifest.leftOut, ['ignored/', 'secret'])
  assert.deepEqual(decodeManifest(encodeManifest(manifest)), manifest)
  assert.ok(findCommand(['odd[x]*']).includes(String.raw`./odd\[x\]\*`))
})

test('a plan writes, removes, and gives permissions and empty folders back', () => {
  const now: Manifest = {
    files: new Map([['mode', 0o600]]),
    folders: new Map([['made', { perm: 0o755, isEmpty: true }]]),
    leftOut: [],
  }
  const then: Manifest = {
    files: new Map([['new', 0o640]]),
    folders: new Map([
      ['empty', { perm: 0o755, isEmpty: true }],
      ['kept/deep', { perm: 0o700, isEmpty: true }],
    ]),
    leftOut: ['large', 'ignored/'],
  }
  const changes = [
    { path: 'new', from: null, to: file('aa') },
    { path: 'edited', from: file('bb'), to: file('cc', '100755') },
    { path: 'd/sub/added', from: file('dd'), to: null },
    { path: 'kept/added', from: file('dd'), to: null },
    { path: 'large', from: file('ee'), to: null },
    { path: 'ignored/deep/file', from: file('ee'), to: null },
  ]
  const plan = planRestore(changes, now, then, everything)
  assert.deepEqual(
    plan.writes.map(({ path, perm, isNew }) => [path, perm, isNew]),
    [
      ['new', 0o640, true],
      ['edited', 0o755, false],
    ],
  )
  assert.deepEqual(plan.removals, ['d/sub/added', 'kept/added'])
  assert.deepEqual(plan.leftOut, ['large', 'ignored/deep/file'], 'they were there, so they are not new')
  assert.deepEqual(plan.modes, [{ path: 'mode', perm: 0o644 }])
  assert.deepEqual(
    plan.folders.map(({ path }) => path),
    ['empty', 'kept/deep'],
  )
  assert.deepEqual(plan.emptied, ['d/sub', 'd', 'made'])
  assert.deepEqual(
    previewOf(plan, () => 7).map(({ path, change }) => `${change} ${path}`),
    ['removed d/sub/added', 'changed edited', 'removed kept/added', 'changed mode', 'added new'],
  )
  const part = planRestore(changes, now, then, selection(['d/', './new']))
  assert.deepEqual([part.writes.map(({ path }) => path), part.removals, part.modes], [['new'], ['d/sub/added'], []])
  assert.ok(isEmptyPlan(planRestore([], NONE, NONE, everything)))
  assert.ok(!selection(['src'])('srcs/a'))
})

test('a folder with unusual permissions that was not there is removed, and not made again', () => {
  const now: Manifest = { files: new Map(), folders: new Map([['d', { perm: 0o700, isEmpty: false }]]), leftOut: [] }
  const plan = planRestore([{ path: 'd/a', from: file('aa'), to: null }], now, NONE, everything)
  assert.deepEqual([plan.emptied, plan.folders], [['d'], [{ path: 'd', perm: 0o755, isMade: false }]])
})

test('a change belongs to the box only while something of the box was at work', () => {
  let spans = withSpan([], { from: 10n, to: 20n }, 3)
  spans = withSpan(spans, { from: 30n, to: 40n }, 3)
  spans = withSpan(spans, { from: 15n, to: 22n }, 3)
  assert.deepEqual(spans, [
    { from: 10n, to: 22n },
    { from: 30n, to: 40n },
  ])
  assert.deepEqual(
    [9n, 10n, 21n, 22n, 29n, 30n, 40n].map((at) => isInside(spans, at)),
    [false, true, true, false, false, true, false],
  )
  const three = withSpan(spans, { from: 50n, to: 55n }, 3)
  const many = withSpan(three, { from: 70n, to: 75n }, 3)
  assert.deepEqual(many[0], { from: 10n, to: 40n }, 'the oldest two become one')
})

test('a path that neither the checkpoint nor the workspace knows is unknown; what a checkpoint leaves out is not', () => {
  const state: Manifest = {
    ...NONE,
    folders: new Map([['empty/deep', { perm: 0o755, isEmpty: true }]]),
    leftOut: ['node_modules/', 'dist/big.bin'],
  }
  const held = new Set(['src', 'src/a'])
  const known = ['src/', './src/a', '.', 'empty', 'empty/deep', 'node_modules/x/y', 'dist', 'dist/big.bin']
  assert.deepEqual(unknownPaths([...known, 'nosuch', 'src/b', '/etc', 'empty/x'], held, [NONE, state]), [
    'nosuch',
    'src/b',
    '/etc',
    'empty/x',
  ])
  assert.deepEqual(namesIn(['./a/', '.', '/etc/passwd', '../x', 'a/../b', 'a..b']), ['a', 'a..b'], 'git refuses others')
})
