/** Readers of a journal whose last events a failover of the store lost, and whose owner appends them again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Feed } from '../src/session/feed.ts'
import type { StoredEvent } from '../src/store/store.ts'

const event = (seq: number): StoredEvent => ({ seq, turnId: 't', type: 'step-start', body: `{"seq":${seq}}` })

/** A journal that ends at event 1 although the feed knows of 2, and what the reader has got so far. */
function rewound() {
  const stored = [event(1)]
  const seen: number[] = []
  let onRead = (): void => undefined
  const read = async (_id: string, after: number): Promise<readonly StoredEvent[]> => {
    const found = stored.filter(({ seq }) => seq > after)
    await Promise.resolve()
    onRead()
    return found
  }
  const feed = new Feed({ read }, { id: 's', journal: 'j', lastSeq: 2 })
  const over = new AbortController()
  const reading = (async () => {
    for await (const page of feed.tail(0, over.signal)) {
      seen.push(...page.map(({ seq }) => seq))
      if (seen.length === 2) return
    }
  })()
  return { feed, stored, seen, reading, over, whenRead: (run: () => void) => (onRead = run) }
}

test('events that are appended again, under the same seqs, reach a reader that waits for them', async () => {
  const { feed, stored, seen, reading, whenRead } = rewound()
  let reads = 0
  await new Promise<void>((resolve) => whenRead(() => ++reads === 2 && resolve())) // it has event 1, and finds no more
  await new Promise(setImmediate)
  stored.push(event(2))
  feed.advanceTo(2)
  await reading
  assert.deepEqual(seen, [1, 2])
})

test('events that are appended during a read that did not find them are not missed', async () => {
  const { feed, stored, seen, reading, whenRead } = rewound()
  let reads = 0
  whenRead(() => {
    if (++reads !== 2) return
    stored.push(event(2))
    feed.advanceTo(3)
  })
  await reading
  assert.deepEqual(seen, [1, 2])
})

test('a reader that leaves during such a read ends', async () => {
  const { reading, over, whenRead } = rewound()
  let reads = 0
  whenRead(() => ++reads === 2 && over.abort())
  await reading
})
