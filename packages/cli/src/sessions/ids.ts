/**
 * Sessions and turns by the first characters of their ids, as people copy them. Ids start with their time, so a session and
 * its first turn often share a prefix; the session wins, because wherever a turn is expected a session's id stands for its turn.
 */
import type { SessionViewer } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import type { Session } from '@breakfall/wire'
import { lastTurnId } from './lookup.ts'

const FULL_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const ID_PREFIX = /^[0-9a-f][0-9a-f-]{0,34}$/

export const isFullId = (text: string): boolean => FULL_ID.test(text)

/** The full id. Anything that is not the prefix of a known id is returned unchanged, for the look-up to report. */
export async function fullId(viewer: SessionViewer, given: string): Promise<string> {
  if (isFullId(given) || !ID_PREFIX.test(given)) return given
  const sessions = await viewer.sessions()
  const found = matching(sessions, given)
  const [first, ...more] = found
  if (first === undefined) return (await matchingLastTurn(viewer, sessions, given)) ?? given
  if (more.length === 0) return first.id
  throw new Fault('invalid_request', {
    error: `${found.length} ids start with ${given}; use more characters:${listed(found)}`,
  })
}

/** Shortens ids to the shortest prefix that tells them apart: the first two groups, which are the time, or more. */
export function shortener(ids: readonly string[]): (id: string) => string {
  const length = [13, 18, 23].find((most) => new Set(ids.map((id) => id.slice(0, most))).size === ids.length)
  return (id) => id.slice(0, length)
}

// ---- details, in the order they are used above ----

type Candidate = { readonly id: string; readonly label: string }

function matching(sessions: readonly Session[], given: string): readonly Candidate[] {
  const matches = ({ id }: Candidate): boolean => id.startsWith(given)
  const named = sessions.map(({ id, title }) => ({ id, label: `session${title === null ? '' : ` "${title}"`}` }))
  const found = named.filter(matches)
  if (found.length > 0) return found
  return sessions.flatMap(({ turnId }) => (turnId === null ? [] : [{ id: turnId, label: 'turn' }])).filter(matches)
}

const SEARCHED_MAX = 50 // the newest sessions; an older turn needs its full id

/** Idle sessions have no current turn, but their last one can be looked up. */
async function matchingLastTurn(
  viewer: SessionViewer,
  sessions: readonly Session[],
  given: string,
): Promise<string | undefined> {
  for (const session of sessions.filter(({ turnId }) => turnId === null).slice(0, SEARCHED_MAX)) {
    const turnId = await lastTurnId(viewer, session)
    if (turnId?.startsWith(given) === true) return turnId
  }
  return undefined
}

const LISTED_MAX = 8

/** One per line. */
function listed(found: readonly Candidate[]): string {
  const shortId = shortener(found.map(({ id }) => id))
  const lines = found.slice(0, LISTED_MAX).map(({ id, label }) => `\n  ${shortId(id)}  ${label}`)
  return `${lines.join('')}${found.length > LISTED_MAX ? '\n  …' : ''}`
}
