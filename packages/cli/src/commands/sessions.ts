/** `breakfall sessions`, `show` and `tail`: reads sessions and turns, with a daemon or without. */
import type { SessionViewer } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import { isTerminal, parseCursor, type Session, type Turn } from '@breakfall/wire'
import type { Context } from '../context.ts'
import { findViewer, followingClient, requireDaemon } from '../daemon/find.ts'
import { waitingForDaemon, withHowToContinue } from '../daemon/lost.ts'
import { onSignal } from '../process/signals.ts'
import type { Output } from '../render/output.ts'
import { paint } from '../render/paint.ts'
import { sessionLines, sessionTable, turnLines } from '../render/session-lines.ts'
import { TurnView } from '../render/turn-view.ts'
import { fullId } from '../sessions/ids.ts'
import { ifNotFound, lastTurnId } from '../sessions/lookup.ts'

export type TailOptions = { readonly after?: string; readonly follow: boolean }

export async function sessionsCommand(context: Context): Promise<void> {
  const { out } = context
  const viewer = await viewerFor(context)
  const sessions = await viewer.sessions()
  if (out.json) {
    for (const session of sessions) out.data(session)
    out.result({ count: sessions.length })
    return
  }
  if (sessions.length === 0) {
    out.line('no sessions yet; start one: breakfall run "PROMPT"')
    return
  }
  const parked = new Map<string, Turn>()
  for (const { state, turnId } of sessions) {
    const turn = state === 'parked' && turnId !== null ? await viewer.turn(turnId).catch(ifNotFound) : undefined
    if (turn !== undefined) parked.set(turn.sessionId, turn)
  }
  for (const line of sessionTable(sessions, parked, out.style.bind(out))) out.line(line)
}

/** Shows the session or the turn with that id. */
export async function showCommand(context: Context, given: string): Promise<void> {
  const { out } = context
  const viewer = await viewerFor(context)
  const id = await fullId(viewer, given)
  const session = await viewer.session(id).catch(ifNotFound)
  if (session === undefined) return showTurn(await turnFor(viewer, id), out)
  if (out.json) return out.result(session)
  for (const line of sessionLines(session)) out.line(line)
  const turnId = await lastTurnId(viewer, session)
  if (turnId !== undefined) showTurn(await viewer.turn(turnId), out)
}

export async function tailCommand(context: Context, given: string, options: TailOptions): Promise<void> {
  const { config, out } = context
  const viewer = options.follow
    ? followingClient(
        config,
        await requireDaemon(config, 'With --no-follow, tail shows the events so far without one.'),
      )
    : await viewerFor(context)
  const stop = new AbortController()
  using _ = onSignal(() => stop.abort())
  await tail(viewer, given, options, stop.signal, out)
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
  if (session === undefined) throw new Fault('not_found', { error: `No session or turn has the id ${id}` })
  if (session.turnId === null)
    throw new Fault('not_found', { error: `Session ${id} is idle: it has no running or parked turn` })
  return viewer.turn(session.turnId)
}

export const isOver = ({ state }: Turn): boolean => state === 'finished' || state === 'failed' || state === 'cancelled'

/** `unfinished` is a note for a turn that has not ended. */
export function showTurn(turn: Turn, out: Output, unfinished?: string): void {
  if (out.json) out.result(turn)
  else for (const line of turnLines(turn, isOver(turn) ? undefined : unfinished)) out.line(line)
}

// ---- details ----

async function tail(
  viewer: SessionViewer,
  given: string,
  { after, follow }: TailOptions,
  signal: AbortSignal,
  out: Output,
): Promise<void> {
  const { id: sessionId, lastSeq } = await sessionFor(viewer, given)
  const cursor = parseCursor(after)
  if (cursor === undefined)
    throw new Fault('invalid_request', { error: `--after takes the number or the cursor of an event, got ${after}` })
  const view = new TurnView()
  let count = 0
  const isLast = (seq: number): boolean => !follow && seq >= lastSeq
  const onUnreachable = (url: string): void => out.say(waitingForDaemon(url))
  try {
    if (!isLast(cursor.seq))
      for await (const event of viewer.events(sessionId, { after: after ?? 0, signal, onUnreachable })) {
        count++
        if (out.json) out.data(event)
        else paint(out, view.show(event))
        if (isLast(event.seq)) break
        if (isTerminal(event) && !out.json) out.line(out.style('dim', `── ${event.type} ${event.turnId}`))
      }
  } catch (thrown) {
    throw withHowToContinue(thrown, sessionId)
  }
  if (out.json) out.result({ sessionId, count })
}

/** The session with that id, or the session of the turn with that id. */
async function sessionFor(viewer: SessionViewer, given: string): Promise<Session> {
  const id = await fullId(viewer, given)
  const session = await viewer.session(id).catch(ifNotFound)
  return session ?? viewer.session((await turnFor(viewer, id)).sessionId)
}
