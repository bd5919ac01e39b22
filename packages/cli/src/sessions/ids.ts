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
  const byId = (await viewer.sessionPage({ q: given })).sessions
  const found = matching(byId, given)
  const [first, ...more] = found
  if (first === undefined) return turnMatching((await viewer.sessionPage({})).sessions, given) ?? given
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

const matching = (sessions: readonly Session[], given: string): readonly Candidate[] =>
  sessions
    .filter(({ id }) => id.startsWith(given))
    .map(({ id, title }) => ({ id, label: `session${title === null ? '' : ` "${title}"`}` }))

/** Of the newest sessions the current or last turn; another turn needs its full id. */
function turnMatching(sessions: readonly Session[], given: string): string | undefined {
  return sessions.map(lastTurnId).find((id) => id?.startsWith(given))
}

const LISTED_MAX = 8

/** One per line. */
function listed(found: readonly Candidate[]): string {
  const shortId = shortener(found.map(({ id }) => id))
  const lines = found.slice(0, LISTED_MAX).map(({ id, label }) => `\n  ${shortId(id)}  ${label}`)
  return `${lines.join('')}${found.length > LISTED_MAX ? '\n  …' : ''}`
}
