/** What a prompt does to a session: it starts a turn, waits behind another one, or is refused. Pure. */
import { Fault } from '@breakfall/faults'
import type { SameFolder } from '@breakfall/wire'
import { questionOf } from '@breakfall/wire/turn'
import type { SessionData } from '../rows.ts'
import type { SessionFold } from '../turn/state.ts'
import { supersededDraft } from '../loop/end-turn.ts'
import type { Folders } from '../session/folders.ts'
import type { OwnedSession, Writing } from '../session/owned-session.ts'
import { type ChosenModel, startingTurn, type TurnOpening } from '../loop/turn-opening.ts'

const QUEUE_MAX = 100
const TITLE_CHARS = 80

export type PromptRequest = {
  readonly prompt: string
  readonly queue?: boolean | undefined
  /** What to do while another session works in the same folder. Default: share it. */
  readonly sameFolder?: SameFolder | undefined
  /** In the request, the caller's span; in the journal, the turn's own. */
  readonly traceparent?: string | undefined
}

/** Without a title, a session is called after its first prompt: the first line that is not empty. */
export function titled(writing: Writing, { title, ...data }: SessionData, prompt: string): Writing {
  if (title !== null) return writing
  const first = (prompt.trim().split('\n')[0] ?? '').trim().slice(0, TITLE_CHARS).toWellFormed()
  return { ...writing, data: { ...data, ...writing.data, title: first } }
}

export function accepted(
  fold: SessionFold,
  session: OwnedSession,
  { turnId, prompt, queue, sameFolder = 'share', traceparent }: PromptRequest & { readonly turnId: string },
  opening: TurnOpening & ChosenModel,
  folders: Folders,
): Writing {
  const { turn } = fold
  const traced = traceparent === undefined ? {} : { traceparent }
  if (turn?.parked != null && questionOf(turn.parked) === 'steps' && fold.queue.length === 0) {
    const start = startingTurn(fold, session, { turnId, prompt, traceparent }, opening)
    return { ...start, drafts: [supersededDraft(turn), ...start.drafts] }
  }
  const busyWith = fold.turn?.id ?? fold.queue[0]?.id
  if (busyWith === undefined) {
    const behind = folders.enter(session, turnId, sameFolder)
    if (behind !== undefined) return { drafts: [{ type: 'turn-queued', turnId, prompt, behind, ...traced }] }
    return startingTurn(fold, session, { turnId, prompt, traceparent }, opening)
  }
  if (queue !== true) throw new Fault('session_busy', { facts: { name: busyWith }, turnId: busyWith })
  if (fold.queue.length >= QUEUE_MAX) {
    throw new Fault('quota_exceeded', {
      boundary: 'daemon',
      facts: { limit: `${QUEUE_MAX} waiting prompts` },
      message: { advice: 'Wait until a turn has ended, or cancel one.' },
    })
  }
  return { drafts: [{ type: 'turn-queued', turnId, prompt, ...traced }] }
}
