/** Finds the turn of a session, and recognises abandoned turns. */
import { Fault, isFault } from '@breakfall/faults'
import type { Session } from '@breakfall/wire'
import { cmd } from '../process/command-name.ts'

/** The current turn, else the last one. */
export const lastTurnId = ({ turnId, turn }: Session): string | undefined => turnId ?? turn?.id

/** The journal says that it is in progress, but no daemon works on it. */
export const isAbandoned = (record: { readonly state: string; readonly live?: unknown }): boolean =>
  record.live === false && IN_PROGRESS.has(record.state)

const IN_PROGRESS: ReadonlySet<string> = new Set(['busy', 'queued', 'running', 'retrying'])

/** For `.catch`: a missing record is undefined, any other failure stays one. */
export function ifNotFound(error: unknown): undefined {
  if (isFault(error) && error.category === 'not_found') return undefined
  throw error
}

export const noSuchId = (id: string): Fault =>
  new Fault('not_found', { error: `No session or turn has the id ${id}. To see those there are: ${cmd('sessions')}` })
