/**
 * Finds sessions and turns, also by the first characters of their ids, as people copy them. Ids start with their time, so a session
 * and its first turn often share a prefix; the session wins, because wherever a turn is expected a session's id stands for its turn.
 */
import type { SessionViewer } from '@breakfall/client'
import { Fault, isFault } from '@breakfall/faults'
import type { Session, Turn } from '@breakfall/wire'
import { cmd } from '../process/command-name.ts'
import { currentFolderIfAny } from '../process/current-folder.ts'
import { sessionTable } from '../render/session-lines.ts'
import type { Output } from '../terminal/output.ts'
import { shortener } from '../text/table.ts'

/** The current turn, else the last one. */
export const lastTurnId = ({ turnId, turn }: Session): string | undefined => turnId ?? turn?.id

/** For `.catch`: a missing record is undefined, any other failure stays one. */
export function ifNotFound(error: unknown): undefined {
  if (isFault(error) && error.category === 'not_found') return undefined
  throw error
}

export const noSuchId = (id: string): Fault =>
  new Fault('not_found', { error: `No session or turn has the id ${id}. To see those there are: ${cmd('sessions')}` })

export const isFullId = (text: string): boolean => FULL_ID.test(text)

/** The full id. Anything that is not the prefix of a known id is returned unchanged, for the look-up to report. */
export async function fullId(viewer: SessionViewer, input: string): Promise<string> {
  if (isFullId(input) || !ID_PREFIX.test(input)) return input
  const byId = (await viewer.sessionPage({ q: input })).sessions
  const found = matching(byId, input)
  const [first, ...more] = found
  if (first === undefined) return turnMatching((await viewer.sessionPage({})).sessions, input) ?? input
  if (more.length === 0) return first.id
  throw new Fault('invalid_request', {
    error: `${found.length} ids start with ${input}; use more characters:${listed(found)}`,
  })
}

/** The turn with that id, or the current turn of the session with that id. */
export async function turnFor(viewer: SessionViewer, input: string): Promise<Turn> {
  const id = await fullId(viewer, input)
  const turn = await viewer.turn(id).catch(ifNotFound)
  if (turn !== undefined) return turn
  const session = await viewer.session(id).catch(ifNotFound)
  if (session === undefined) throw noSuchId(id)
  if (session.turnId === null)
    throw new Fault('not_found', {
      error: `Session ${id} is idle: it has no running or parked turn. To continue: ${cmd('run')} --session ${id} "PROMPT"`,
    })
  return viewer.turn(session.turnId)
}

/** The id of this folder's only session in that state. Undefined if there is not exactly one: then all there are have been listed. */
export async function onlyOne(
  viewer: SessionViewer,
  out: Output,
  { state, isMeant = () => true, none }: Wanted,
): Promise<string | undefined> {
  const { sessions } = await viewer.sessionPage({ state })
  const folder = currentFolderIfAny()
  const [only, ...others] = sessions.filter((session) => session.workspace === folder && isMeant(session))
  if (only !== undefined && others.length === 0) return only.id
  if (out.json) for (const session of sessions) out.data(session)
  else if (sessions.length === 0) out.line(none)
  else for (const line of sessionTable(sessions, (...styled) => out.style(...styled), Date.now())) out.line(line)
  return undefined
}

// ---- details, in the order they are used above ----

const FULL_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const ID_PREFIX = /^[0-9a-f][0-9a-f-]{0,34}$/

type Candidate = { readonly id: string; readonly label: string }

const matching = (sessions: readonly Session[], input: string): readonly Candidate[] =>
  sessions
    .filter(({ id }) => id.startsWith(input))
    .map(({ id, title }) => ({ id, label: `session${title === null ? '' : ` "${title}"`}` }))

/** Of the newest sessions the current or last turn; another turn needs its full id. */
function turnMatching(sessions: readonly Session[], input: string): string | undefined {
  return sessions.map(lastTurnId).find((id) => id?.startsWith(input))
}

type Wanted = {
  readonly state: string
  readonly isMeant?: (session: Session) => boolean
  /** Said if there is none anywhere. */
  readonly none: string
}

const LISTED_MAX = 8

/** One per line. */
function listed(found: readonly Candidate[]): string {
  const shortId = shortener(found.map(({ id }) => id))
  const lines = found.slice(0, LISTED_MAX).map(({ id, label }) => `\n  ${shortId(id)}  ${label}`)
  return `${lines.join('')}${found.length > LISTED_MAX ? '\n  …' : ''}`
}
