/**
 * Checks what the daemon sent against what callers rely on. Not a full schema: fields that a newer daemon adds pass, and a
 * missing or mistyped one is a fault here instead of a crash far away.
 */
import type { Session, Turn, Undone } from '@breakfall/wire'
import { fields, isNumber, isReport, isText, orNull, shape } from './check.ts'

export type TurnReceipt = { readonly turnId: string; readonly seq: number }

export const isSession = shape<Session>({
  id: isText,
  title: orNull(isText),
  state: isText,
  turnId: orNull(isText),
  model: isText,
  createdAt: isText,
  lastSeq: isNumber,
})

export const isTurn = shape<Turn>({
  id: isText,
  sessionId: isText,
  state: isText,
  prompt: isText,
  steps: isNumber,
  attempts: isNumber,
  parked: orNull(fields({ category: isText, since: isText, resumeAt: orNull(isText) })),
  fault: orNull(isReport),
  result: orNull(fields({ text: isText })),
})

export const isReceipt = shape<TurnReceipt>({ turnId: isText, seq: isNumber })

export const isUndone = shape<Undone>({
  restored: isNumber,
  removed: isNumber,
  checkpoint: isText,
  files: Array.isArray,
  conflicts: Array.isArray,
  skipped: Array.isArray,
})
