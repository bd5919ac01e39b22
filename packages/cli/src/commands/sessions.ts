/** `breakfall sessions`, `show` and `tail`: reads sessions and turns, with a daemon or without. */
import { DaemonClient, type SessionPage, type SessionViewer, type TurnPage } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import {
  isCutOff,
  isTerminal,
  parseCursor,
  type Session,
  type SessionEvent,
  type SessionQuery,
  sessionQuerySchema,
  type Turn,
} from '@breakfall/wire'
import { parseRequest } from '@breakfall/wire/internal'
import type { Context } from '../context.ts'
import { findDaemon, findViewer, followingClient, requireDaemon } from '../daemon/find.ts'
import { waitingForDaemon, withHowToContinue } from '../daemon/lost.ts'
import { onSignal } from '../process/signals.ts'
import { counted } from '../render/counted.ts'
import { CUT_OFF } from '../render/finish-lines.ts'
import type { Output } from '../render/output.ts'
import { paint } from '../render/paint.ts'
import { sessionLines, sessionTable } from '../render/session-lines.ts'
import { leftRunning } from '../render/processes.ts'
import { turnLines, type TurnNotes } from '../render/turn-lines.ts'
import { TurnView } from '../render/turn-view.ts'
import { processesOfSession } from '../sessions/background.ts'
import { fullId } from '../sessions/ids.ts'
import { ifNotFound, noSuchId } from '../sessions/lookup.ts'
import { currentFolder } from '../workspace/work-folder.ts'
import { cmd } from '../process/command-name.ts'

export type TailOptions = { readonly after?: string; readonly follow: boolean }

export type SessionsOptions = {
  readonly all?: boolean
  readonly cursor?: string
  readonly here?: boolean
  readonly limit?: number
  readonly search?: string
  readonly state?: string
}

/** People get one page, programs everything, unless they ask for less. */
export async function sessionsCommand(context: Context, options: SessionsOptions): Promise<void> {
  const { out } = context
  const viewer = await viewerFor(context)
  const most = options.limit ?? (out.json || options.all === true ? Number.POSITIVE_INFINITY : PAGE_ROWS)
  const { sessions, next } = await readSessions(viewer, queryOf(options), most)
  if (out.json) {
    for (const session of sessions) out.data(session)
    out.result({ count: sessions.length, ...(next === undefined ? {} : { next }) })
    return
  }
  if (sessions.length === 0) {
    out.line(isFiltered(options) ? 'no such sessions' : `no sessions yet; start one: ${cmd('run')} "PROMPT"`)
    return
  }
  for (const line of sessionTable(sessions, out.style.bind(out), Date.now())) out.line(line)
  if (next !== undefined) out.say(out.styleErr('dim', `older ones: ${cmd('sessions')} --cursor ${next}, or --all`))
}

/** Shows the session or the turn with that id. */
export async function showCommand(context: Context, given: string): Promise<void> {
  const { out, config } = context
  const viewer = await viewerFor(context)
  const id = await fullId(viewer, given)
  const session = await viewer.session(id).catch(ifNotFound)
  if (session === undefined) {
    const turn = await turnFor(viewer, id)
    const survived = out.json ? undefined : (await survivedIn(viewer, turn.sessionId, [turn])).get(turn.id)
    return showTurn(turn, out, { survived })
  }
  const turns = await turnsOf(viewer, id)
  if (out.json) return out.result({ ...session, turns })
  for (const line of sessionLines(session, turns, Date.now())) out.line(line)
  const client = viewer instanceof DaemonClient ? viewer : undefined
  for (const process of await processesOfSession(session, client, config)) out.line(leftRunning(process))
  const shown = turns.slice(0, TURNS_SHOWN)
  const survived = await survivedIn(viewer, id, shown)
  const earlier = turns.length - shown.length
  if (earlier > 0)
    out.line(out.style('dim', `… ${counted(earlier, 'earlier turn')}; all of them: ${cmd('show')} --json ${id}`))
  for (const [index, turn] of shown.toReversed().entries()) {
    out.line()
    const isLast = index === shown.length - 1
    const notes = { survived: survived.get(turn.id) }
    for (const line of turnLines(isLast ? turn : { ...turn, result: null }, notes)) out.line(line)
  }
}

/** Without a daemon there is nothing to follow: shows the events in the journal, and fails if the session has not ended. */
export async function tailCommand(context: Context, given: string, options: TailOptions): Promise<void> {
  const { config, out } = context
  const stop = new AbortController()
  using _ = onSignal(() => stop.abort())
  const daemon = options.follow ? await findDaemon(config) : undefined
  if (daemon !== undefined) return await tail(followingClient(config, daemon), given, options, stop.signal, out)
  const viewer = await viewerFor(context)
  if (!options.follow) return await tail(viewer, given, options, stop.signal, out)
  const session = await sessionFor(viewer, given).catch(ifNotFound)
  if (session === undefined) {
    await requireDaemon(config, `The journal on disk has no session or turn ${given}; see: ${cmd('sessions')}`)
    return
  }
  const isEnded = session.state === 'idle'
  await tail(viewer, session.id, { ...options, follow: false }, stop.signal, out, isEnded)
  if (!isEnded) await requireDaemon(config, `Or continue it without one: ${cmd('run')} --session ${session.id}`)
}

/** From the daemon, or from the journal on disk. */
export async function viewerFor({ config, out }: Context): Promise<SessionViewer> {
  const { kind, viewer } = await findViewer(config, config.modelName ?? '')
  if (kind === 'offline') out.say(out.styleErr('dim', 'no daemon is running; reading the journal on disk'))
  return viewer
}

/** The turn with that id, or the current turn of the session with that id. */
export async function turnFor(viewer: SessionViewer, given: string): Promise<Turn> {
  const id = await fullId(viewer, given)
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

export const isOver = ({ state }: Turn): boolean => state === 'finished' || state === 'failed' || state === 'cancelled'

/** `note` is for a turn that has not ended. */
export function showTurn(turn: Turn, out: Output, { note, survived }: TurnNotes = {}): void {
  if (out.json) out.result(turn)
  else for (const line of turnLines(turn, { note: isOver(turn) ? undefined : note, survived })) out.line(line)
}

// ---- details ----

const PAGE_ROWS = 50
const TURNS_SHOWN = 5

function queryOf({ search, state, here, cursor }: SessionsOptions): SessionQuery {
  const query = {
    ...(search === undefined ? {} : { q: search }),
    ...(state === undefined ? {} : { state }),
    ...(here === true ? { workspace: currentFolder() } : {}),
    ...(cursor === undefined ? {} : { cursor }),
  }
  return parseRequest(sessionQuerySchema, query)
}

const isFiltered = ({ search, state, here, cursor }: SessionsOptions): boolean =>
  search !== undefined || state !== undefined || here === true || cursor !== undefined

/** Up to `most` sessions, and the cursor of the rest. */
async function readSessions(viewer: SessionViewer, query: SessionQuery, most: number): Promise<SessionPage> {
  const sessions: Session[] = []
  for (let cursor = query.cursor; ;) {
    const limit = Math.min(100, most - sessions.length)
    const page: SessionPage = await viewer.sessionPage({ ...query, limit, ...(cursor === undefined ? {} : { cursor }) })
    sessions.push(...page.sessions)
    cursor = page.next
    if (cursor === undefined || sessions.length >= most) return { sessions, next: cursor }
  }
}

/** All turns of a session, newest first. */
async function turnsOf(viewer: SessionViewer, sessionId: string): Promise<readonly Turn[]> {
  const turns: Turn[] = []
  for (let cursor: string | undefined; ;) {
    const page: TurnPage = await viewer.turns(sessionId, { cursor })
    turns.push(...page.turns)
    cursor = page.next
    if (cursor === undefined) return turns
  }
}

const EVENTS_READ_MAX = 20_000 // of a longer session, only the number of faults is shown

/** The categories of the faults that turns survived: they are in the events, and the view of a turn only counts them. */
async function survivedIn(
  viewer: SessionViewer,
  sessionId: string,
  turns: readonly Turn[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const views = new Map(
    turns.filter(({ faultsSurvived = 0 }) => faultsSurvived > 0).map(({ id }) => [id, new TurnView()]),
  )
  if (views.size === 0) return new Map()
  const { lastSeq } = await viewer.session(sessionId)
  if (lastSeq > EVENTS_READ_MAX) return new Map()
  for await (const event of viewer.events(sessionId, { after: 0 })) {
    views.get(event.turnId)?.replay(event)
    if (event.seq >= lastSeq) break
  }
  return new Map([...views].map(([id, { survived }]) => [id, survived.map(({ category }) => category)]))
}

/** `isWhole`: what was shown is all, so this is the result. */
async function tail(
  viewer: SessionViewer,
  given: string,
  { after, follow }: TailOptions,
  signal: AbortSignal,
  out: Output,
  isWhole = true,
): Promise<void> {
  const { id: sessionId, lastSeq } = await sessionFor(viewer, given)
  const cursor = parseCursor(after)
  if (cursor === undefined)
    throw new Fault('invalid_request', { error: `--after takes the number or the cursor of an event, got ${after}` })
  const view = new TurnView({ showsPrompts: true, holdsText: !out.isTerminal })
  let count = 0
  const isLast = (seq: number): boolean => !follow && seq >= lastSeq
  const onUnreachable = (url: string): void => out.say(waitingForDaemon(url))
  try {
    if (!isLast(cursor.seq))
      for await (const event of viewer.events(sessionId, { after: after ?? 0, signal, onUnreachable })) {
        count++
        if (out.json) out.data(event)
        else paint(out, view.show(event))
        if (isTerminal(event) && !out.json) out.line(out.style('dim', endLine(event)))
        if (isLast(event.seq)) break
      }
  } catch (thrown) {
    throw withHowToContinue(thrown, sessionId)
  }
  if (out.json && isWhole) out.result({ sessionId, count })
}

const endLine = (event: SessionEvent): string =>
  `── ${event.type} ${event.turnId}${event.type === 'turn-end' && isCutOff(event) ? `: ${CUT_OFF}` : ''}`

/** The session with that id, or the session of the turn with that id. */
async function sessionFor(viewer: SessionViewer, given: string): Promise<Session> {
  const id = await fullId(viewer, given)
  const session = await viewer.session(id).catch(ifNotFound)
  return session ?? viewer.session((await turnFor(viewer, id)).sessionId)
}
