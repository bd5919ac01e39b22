/** Appends to several sessions at once, forever, and prints each append once it is acknowledged: `SESSION SEQ`. */
import { randomUUIDv7 } from 'node:crypto'
import { openSqliteStore } from '@breakfall/engine'
import { claimAgain } from '../conformance/store-kit.ts'

const WRITERS = 8

const store = await openSqliteStore(process.argv[2] ?? '')
const data = { title: null, model: null, box: {}, tools: [], policy: {}, runnerId: null, boxMade: false }
await Promise.all(
  Array.from({ length: WRITERS }, async () => {
    const { id } = await store.createSession({ id: randomUUIDv7(), journal: randomUUIDv7(), createdAt: 'now', data })
    const { epoch } = await claimAgain(store, id)
    for (let seq = 1; ; seq += 1) {
      const event = { seq, type: 'text-delta', turnId: 't1', body: JSON.stringify({ seq }) } as const
      await store.append({ sessionId: id, epoch, after: seq - 1, events: [event] })
      process.stdout.write(`${id} ${seq}\n`) // blocks while the pipe is full; `writeSync` would fail with EAGAIN
    }
  }),
)
