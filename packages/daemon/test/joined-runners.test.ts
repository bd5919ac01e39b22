/** What is known of joined runners while the store is away. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, isFault } from '@breakfall/faults'
import { JoinedRunners } from '../src/runner/joined-runners.ts'
import type { RunnerRegistry, RunnerRow } from '../src/store/sharing.ts'

const ROW: RunnerRow = {
  runnerId: 'r1',
  bootId: 'b',
  url: 'http://127.0.0.1:9',
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
}

test('a store that is away ends no turn: known runners stay in use, and unknown ones count as away', async (t) => {
  let isAway = false
  const answer = <T>(value: T): Promise<T> =>
    isAway ? Promise.reject(new Fault('journal_unreachable')) : Promise.resolve(value)
  const registry: RunnerRegistry = {
    get: (runnerId) => answer(runnerId === 'r1' ? ROW : undefined),
    list: () => answer([ROW]),
    verified: () => answer(ROW),
    seen: () => answer(ROW),
    setState: () => answer(true),
    dropSilent: () => answer([]),
    enroll: () => answer(true),
    leave: () => answer(undefined),
    leftBoxes: () => answer([]),
    forget: () => answer(undefined),
  }
  const hints = { isUp: true, send: () => undefined, on: () => () => undefined, watch: () => () => undefined }
  const joined = new JoinedRunners({ registry, hints, key: undefined, dice: () => 0, onToken: () => undefined })
  t.after(() => joined.close())
  assert.equal((await joined.find('r1'))?.url, ROW.url)
  assert.equal(await joined.find('configured'), undefined)
  isAway = true
  joined.changed('r1')
  assert.equal((await joined.find('r1'))?.url, ROW.url)
  assert.equal(await joined.find('configured'), undefined)
  const isUnreachable = (thrown: unknown): boolean => isFault(thrown) && thrown.category === 'runner_unreachable'
  await assert.rejects(joined.find('r2'), isUnreachable)
  await assert.rejects(joined.place({ labels: [] }), isUnreachable)
  assert.equal(await joined.probe(null, { labels: [] }), false)
})
