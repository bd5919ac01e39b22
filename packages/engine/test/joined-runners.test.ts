/** What is known of joined runners while the store is away. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, isFault } from '@breakfall/faults'
import { systemClock } from '../src/clock.ts'
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

const hints = { isUp: true, send: () => undefined, on: () => () => undefined, watch: () => () => undefined }

/** A registry with this one runner. `answer` may refuse instead. */
function registryOf(row: () => RunnerRow, answer: <T>(value: T) => Promise<T>): RunnerRegistry {
  return {
    get: (runnerId) => answer(runnerId === 'r1' ? row() : undefined),
    list: () => answer([row()]),
    verified: () => answer(row()),
    seen: () => answer(row()),
    setState: () => answer(true),
    dropSilent: () => answer([]),
    enroll: () => answer(true),
    leave: () => answer(undefined),
    leftBoxes: () => answer([]),
    forget: () => answer(undefined),
  }
}

const joinedOf = (
  registry: RunnerRegistry,
  onToken: (runnerId: string, token: string) => void = () => undefined,
): JoinedRunners =>
  new JoinedRunners({ registry, hints, key: undefined, clock: systemClock({ now: Date.now, dice: () => 0 }), onToken })

test('a runner that moved is found in the store although the hint about it is late', async (t) => {
  let row = ROW
  const joined = joinedOf(
    registryOf(
      () => row,
      (value) => Promise.resolve(value),
    ),
  )
  t.after(() => joined.close())
  const { address } = joined.connect(ROW, 1, { labels: [] })
  assert.equal(await joined.hasMoved(address), false)
  row = { ...ROW, url: 'http://127.0.0.1:10' }
  assert.equal((await joined.find('r1'))?.url, ROW.url, 'what was just read is not read again for each call')
  assert.equal(await joined.hasMoved(address), true, 'a call that failed reads it again')
  assert.equal((await joined.find('r1'))?.url, row.url)
})

test('every runner of the fleet is known to a daemon that never called one, and costs it no token', async (t) => {
  let tokens = 0
  let row = ROW
  const joined = joinedOf(
    registryOf(
      () => row,
      (value) => Promise.resolve(value),
    ),
    () => (tokens += 1),
  )
  t.after(() => joined.close())
  await joined.list()
  assert.deepEqual([joined.known, tokens], [['r1'], 0])
  joined.connect(ROW, 1, { labels: [] })
  joined.connect(ROW, 2, { labels: [] })
  assert.equal(tokens, 1)
  row = { ...ROW, state: 'lost' }
  await joined.list()
  assert.deepEqual(joined.known, [], 'a lost one is not used')
})

test('a store that is away ends no turn: known runners stay in use, and unknown ones count as away', async (t) => {
  let isAway = false
  const joined = joinedOf(
    registryOf(
      () => ROW,
      (value) => (isAway ? Promise.reject(new Fault('journal_unreachable')) : Promise.resolve(value)),
    ),
  )
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
