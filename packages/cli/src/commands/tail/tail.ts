/** `breakfall tail`: shows a session's events and follows it. */
import type { SessionViewer } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import { isCutOff, isTerminal, parseCursor, type Session, type SessionEvent } from '@breakfall/wire'
import type { Context } from '../../command-line/context.ts'
import { findDaemon, followingClient, requireDaemon, waitingForDaemon, withHowToContinue } from '../../daemon/find.ts'
import { cmd } from '../../process/command-name.ts'
import { onSignal } from '../../process/signals.ts'
import { CUT_OFF } from '../../render/finish-lines.ts'
import { paint } from '../../render/paint.ts'
import { TurnView } from '../../render/turn-view.ts'
import { fullId, ifNotFound, turnFor } from '../../sessions/lookup.ts'
import { viewerFor } from '../../sessions/viewer.ts'
import type { Output } from '../../terminal/output.ts'

export type TailOptions = { readonly after?: string; readonly follow: boolean }

/** Without a daemon there is nothing to follow: shows the events in the journal, and fails if the session has not ended. */
export async function tailCommand(context: Context, input: string, options: TailOptions): Promise<void> {
  const { config, out } = context
  const stop = new AbortController()
  using _ = onSignal(() => stop.abort())
  const daemon = options.follow ? await findDaemon(config) : undefined
  if (daemon !== undefined) return await tail(followingClient(config, daemon), input, options, stop.signal, out)
  const viewer = await viewerFor(context)
  if (!options.follow) return await tail(viewer, input, options, stop.signal, out)
  const session = await sessionFor(viewer, input).catch(ifNotFound)
  if (session === undefined) {
    await requireDaemon(config, `The journal on disk has no session or turn ${input}; see: ${cmd('sessions')}`)
    return
  }
  const isEnded = session.state === 'idle'
  await tail(viewer, session.id, { ...options, follow: false }, stop.signal, out, isEnded)
  if (!isEnded) await requireDaemon(config, `Or continue it without one: ${cmd('run')} --session ${session.id}`)
}

// ---- details, in the order they are used above ----

/** `isWhole`: what was shown is all, so this is the result. */
async function tail(
  viewer: SessionViewer,
  input: string,
  { after, follow }: TailOptions,
  signal: AbortSignal,
  out: Output,
  isWhole = true,
): Promise<void> {
  const { id: sessionId, lastSeq } = await sessionFor(viewer, input)
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
async function sessionFor(viewer: SessionViewer, input: string): Promise<Session> {
  const id = await fullId(viewer, input)
  const session = await viewer.session(id).catch(ifNotFound)
  return session ?? viewer.session((await turnFor(viewer, id)).sessionId)
}
