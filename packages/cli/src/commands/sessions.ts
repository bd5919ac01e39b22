/** Looking at a daemon's sessions and turns, and steering them: sessions, show, cancel, resume, tail. */
import { type Fault, isFault } from '@breakfall/faults'
import { isTerminal, type SessionEvent, type Turn } from '@breakfall/wire'
import type { DaemonClient } from '../daemon-client.ts'
import type { Output } from '../output.ts'
import { paint } from '../render/paint.ts'
import { TurnView } from '../render/turn-view.ts'

export async function listSessions(client: DaemonClient, out: Output): Promise<void> {
  const sessions = await client.sessions()
  if (out.json) {
    for (const session of sessions) out.data(session)
    out.data({ event: 'result', count: sessions.length })
    return
  }
  if (sessions.length === 0) out.line('no sessions yet; start one with: breakfall run "PROMPT"')
  for (const session of sessions) {
    const state = out.style(
      session.state === 'idle' ? 'dim' : session.state === 'parked' ? 'yellow' : 'green',
      session.state.padEnd(6),
    )
    out.line(`${session.id}  ${state}  ${session.createdAt}  ${session.model}  ${session.title ?? ''}`)
  }
}

/** A session or a turn, whichever has that id. */
export async function show(client: DaemonClient, id: string, out: Output): Promise<void> {
  const session = await client.session(id).catch(notFound)
  if (session !== undefined) {
    if (out.json) out.data(session)
    else
      for (const [key, value] of Object.entries(session))
        out.line(`${key.padEnd(10)} ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    return
  }
  showTurn(await client.turn(id), out)
}

export async function cancel(
  client: DaemonClient,
  turnId: string,
  reason: string | undefined,
  out: Output,
): Promise<void> {
  showTurn(await client.cancel(turnId, reason), out)
}

export async function resume(client: DaemonClient, turnId: string, out: Output): Promise<void> {
  showTurn(await client.resume(turnId), out)
}

/** A session's events from `after` on. Ends with the session's last turn where `follow` is off. */
export async function tail(
  client: DaemonClient,
  sessionId: string,
  options: { after?: string; follow: boolean; signal: AbortSignal },
  out: Output,
): Promise<void> {
  const { lastSeq } = await client.session(sessionId)
  if (!options.follow && lastSeq === 0) return
  const view = new TurnView()
  for await (const event of client.events(sessionId, { after: options.after ?? 0, signal: options.signal })) {
    if (out.json) out.data(event)
    else paint(out, view.show(event))
    if (!options.follow && event.seq >= lastSeq) return
    if (isTerminal(event)) separate(out, event)
  }
}

// ---- details ----

function showTurn(turn: Turn, out: Output): void {
  if (out.json) {
    out.data(turn)
    return
  }
  out.line(`turn ${turn.id}: ${turn.state}, ${turn.steps} steps, ${turn.attempts} attempts`)
  if (turn.parked !== null)
    out.line(
      `  waits for ${turn.parked.category} since ${turn.parked.since}${turn.parked.resumeAt === null ? '' : `, until ${turn.parked.resumeAt}`}`,
    )
  if (turn.fault !== null) out.line(`  ${turn.fault.error}\n  ${turn.fault.category}: ${turn.fault.errorRaw}`)
  if (turn.result !== null) out.line(turn.result.text)
}

function separate(out: Output, event: SessionEvent): void {
  if (!out.json) out.line(out.style('dim', `── ${event.type} ${event.turnId}`))
}

function notFound(error: unknown): undefined {
  if (isFault(error) && (error as Fault).category === 'not_found') return undefined
  throw error
}
