/**
 * Sessions and turns by the beginning of their ids, as people copy them. A session's id stands for its turn where a turn is
 * meant, so one session that fits is enough, whatever turns of its own begin alike (both ids begin with the time).
 */
import { Fault } from '@breakfall/faults'
import type { Session } from '@breakfall/wire'
import type { Viewer } from './offline.ts'

const WHOLE = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const BEGINNING = /^[0-9a-f][0-9a-f-]{0,34}$/

export const isWholeId = (text: string): boolean => WHOLE.test(text)

/** The whole id. What is no beginning of an id, or of none that is known, comes back as it is: whoever looks it up says so. */
export async function wholeId(viewer: Viewer, given: string): Promise<string> {
  if (isWholeId(given) || !BEGINNING.test(given)) return given
  const sessions = await viewer.sessions()
  const found = fitting(sessions, given)
  const [first, ...more] = found
  if (first === undefined) return (await fittingLastTurn(viewer, sessions, given)) ?? given
  if (more.length === 0) return first.id
  throw new Fault('invalid_request', {
    error: `${given} is the beginning of ${found.length} ids; say more of it:${shown(found)}`,
  })
}

/** The beginning that tells each of them from the others: its first two groups, which are its time, or as many more as it takes. */
export function shortener(ids: readonly string[]): (id: string) => string {
  const length = [13, 18, 23].find((most) => new Set(ids.map((id) => id.slice(0, most))).size === ids.length)
  return (id) => id.slice(0, length)
}

// ---- details ----

type Candidate = { readonly id: string; readonly what: string }

function fitting(sessions: readonly Session[], given: string): readonly Candidate[] {
  const fits = ({ id }: Candidate): boolean => id.startsWith(given)
  const named = sessions.map(({ id, title }) => ({ id, what: `session${title === null ? '' : ` "${title}"`}` }))
  const whole = named.filter(fits)
  if (whole.length > 0) return whole
  return sessions.flatMap(({ turnId }) => (turnId === null ? [] : [{ id: turnId, what: 'turn' }])).filter(fits)
}

const LOOKS_MAX = 50 // the newest sessions; of an older turn the whole id is wanted

/** Of sessions that are idle the last turn is known, too. */
async function fittingLastTurn(
  viewer: Viewer,
  sessions: readonly Session[],
  given: string,
): Promise<string | undefined> {
  const { lastTurnId } = await import('../commands/sessions.ts')
  for (const session of sessions.filter(({ turnId }) => turnId === null).slice(0, LOOKS_MAX)) {
    const turnId = await lastTurnId(viewer, session)
    if (turnId?.startsWith(given) === true) return turnId
  }
  return undefined
}

const SHOWN_MAX = 8

/** One to a line. */
function shown(found: readonly Candidate[]): string {
  const shortId = shortener(found.map(({ id }) => id))
  const lines = found.slice(0, SHOWN_MAX).map(({ id, what }) => `\n  ${shortId(id)}  ${what}`)
  return `${lines.join('')}${found.length > SHOWN_MAX ? '\n  …' : ''}`
}
