/** Sessions of a store that only append. */
import type { Store } from '@breakfall/daemon'
import { newId } from '@breakfall/wire/node'

const BODY = JSON.stringify({ text: 'x'.repeat(280) })
export const TURN = newId()

export type Writer = { readonly id: string; readonly epoch: number; seq: number }

export async function newSession(store: Store): Promise<Writer> {
  const data = { title: null, model: null, box: {}, tools: [], policy: {}, runnerId: null, boxMade: false }
  const at = new Date().toISOString()
  const { id } = await store.createSession({ id: newId(), journal: newId(), createdAt: at, data })
  const row = await store.claim(id)
  return { id, epoch: typeof row === 'object' ? row.epoch : 0, seq: 0 }
}

export async function append(store: Store, writer: Writer, eventsEach: number): Promise<void> {
  const events = Array.from({ length: eventsEach }, (_, n) => ({
    seq: writer.seq + 1 + n,
    type: 'text-delta',
    turnId: TURN,
    body: BODY,
  }))
  await store.append({ sessionId: writer.id, epoch: writer.epoch, after: writer.seq, events })
  writer.seq += eventsEach
}
