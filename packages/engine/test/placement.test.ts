/** Which joined runner gets a box, and when a box moves. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSharedFolder, lossOf, placed, type Wanted } from '../src/runner/placement.ts'
import type { RunnerRow } from '../src/store/sharing.ts'

const row = (runnerId: string, more: Partial<RunnerRow> = {}): RunnerRow => ({
  runnerId,
  bootId: 'b',
  url: `http://${runnerId}`,
  state: 'live',
  lostBecause: null,
  silentMs: 0,
  verifiedAt: '',
  lastSeen: '',
  capacity: 10,
  boxes: 0,
  labels: [],
  workspaces: [],
  isolation: 'bwrap',
  version: '0',
  machine: '',
  ...more,
})

/** Every runner that some throw of the dice chooses. */
function chosen(rows: readonly RunnerRow[], wanted: Wanted): readonly string[] {
  const all = new Set<string>()
  for (const first of [0, 0.4, 0.9]) {
    for (const second of [0, 0.4, 0.9]) {
      const dice = [first, second]
      const found = placed(rows, wanted, () => dice.shift() ?? 0)
      if (found !== undefined) all.add(found.runnerId)
    }
  }
  return [...all].toSorted()
}

test('of two runners at random, the one with more room gets the box', () => {
  const rows = [row('full', { boxes: 9 }), row('half', { boxes: 5 }), row('empty', { capacity: 1_000, boxes: 400 })]
  assert.deepEqual(chosen(rows, { labels: [] }), ['empty', 'half'])
  assert.equal(
    placed([], { labels: [] }, () => 0.5),
    undefined,
  )
})

test('a runner that drains, is lost, was not heard of or just refused gets none', () => {
  const rows = [
    row('draining', { state: 'draining' }),
    row('lost', { state: 'lost' }),
    row('silent', { silentMs: 31_000 }),
    row('refused'),
    row('usable', { silentMs: 29_000 }),
  ]
  assert.deepEqual(chosen(rows, { labels: [], without: new Set(['refused']) }), ['usable'])
})

test('labels, isolation and the folder of the box must fit', () => {
  const rows = [
    row('plain'),
    row('gpu', { labels: ['gpu', 'big'], workspaces: ['/srv/shared'] }),
    row('shared', { workspaces: ['shared:/srv'] }),
    row('process', { isolation: 'process' }),
    row('none', { isolation: 'none' }),
  ]
  assert.deepEqual(chosen(rows, { labels: ['gpu'] }), ['gpu'])
  assert.deepEqual(chosen(rows, { labels: ['gpu', 'other'] }), [])
  assert.deepEqual(chosen(rows, { labels: [], workspace: '/srv/shared/a' }), ['gpu', 'shared'])
  assert.deepEqual(chosen(rows, { labels: [], workspace: '/srv/sharedness' }), ['shared'])
  assert.deepEqual(chosen(rows.slice(3), { labels: [] }), ['process'])
  assert.deepEqual(chosen(rows.slice(3), { labels: [], isolation: 'bwrap' }), [])
})

test('a box moves when a person drops its runner, and with replaceAfterMs unless the session forbids it', () => {
  const dropped = row('r', { state: 'lost', lostBecause: 'dropped' })
  const silent = row('r', { state: 'lost', lostBecause: 'silent' })
  assert.equal(lossOf(row('r'), { labels: [] }), undefined)
  assert.equal(lossOf(dropped, { labels: [], replace: 'never' }), 'dropped')
  assert.equal(lossOf(silent, { labels: [] }), 'silent')
  assert.equal(lossOf(silent, { labels: [], replace: 'never' }), undefined)
})

test('files are kept in a folder that is declared shared, or on the same machine; nowhere else', () => {
  const [from, to] = [row('a', { machine: 'm1' }), row('b', { machine: 'm2', workspaces: ['/srv', 'shared:/nfs'] })]
  assert.equal(isSharedFolder('/nfs/x', from, to), true)
  assert.equal(isSharedFolder('/srv/x', from, to), false)
  assert.equal(isSharedFolder('/srv/x', from, { ...to, machine: 'm1' }), true)
  assert.equal(isSharedFolder('/srv/x', row('a'), row('b')), false, 'not known to be shared')
  assert.equal(isSharedFolder(undefined, from, { ...to, machine: 'm1' }), false)
})
