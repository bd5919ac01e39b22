/** Finds the turn of a session, and recognises abandoned turns. */
import type { SessionViewer } from '@breakfall/client'
import { isFault } from '@breakfall/faults'
import type { Session } from '@breakfall/wire'

/** The current turn, else the last one. */
export async function lastTurnId(viewer: Pick<SessionViewer, 'events'>, session: Session): Promise<string | undefined> {
  if (session.turnId !== null) return session.turnId
  if (session.lastSeq === 0 || session['quarantined'] != null) return undefined
  const stop = new AbortController()
  try {
    for await (const { turnId } of viewer.events(session.id, { after: session.lastSeq - 1, signal: stop.signal }))
      return turnId
    return undefined
  } finally {
    stop.abort()
  }
}

/** The journal says that it is in progress, but no daemon works on it. */
export const isAbandoned = (record: { readonly state: string; readonly live?: unknown }): boolean =>
  record.live === false && IN_PROGRESS.has(record.state)

const IN_PROGRESS: ReadonlySet<string> = new Set(['busy', 'queued', 'running', 'retrying'])

/** For `.catch`: a missing record is undefined, any other failure stays one. */
export function ifNotFound(error: unknown): undefined {
  if (isFault(error) && error.category === 'not_found') return undefined
  throw error
}
