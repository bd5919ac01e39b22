/** Answers to requests that were made before, or cannot be met. Pure. */
import { createHash } from 'node:crypto'
import { Fault } from '@breakfall/faults'
import { type TurnReceipt, turnReceiptSchema } from '@breakfall/wire'
import type { KeyRow } from '../store/store.ts'

export function receiptOf(known: KeyRow, requestHash: string): TurnReceipt {
  if (known.requestHash !== requestHash) throw new Fault('idempotency_conflict')
  return turnReceiptSchema.parse(JSON.parse(known.receipt))
}

export const hashOf = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex')

export const unfinished = (id: string, turnId: string | null): Fault =>
  new Fault('session_busy', {
    facts: { name: turnId ?? id },
    message: { happened: `Session ${id} has not ended: it has an unfinished turn.`, advice: 'Cancel the turn first.' },
    ...(turnId === null ? {} : { turnId }),
  })
