/** Looking at sessions and turns, with a daemon or without, and steering them, with one: sessions, show, tail, cancel, resume. */
import { Fault, isFault } from '@breakfall/faults'
import { isTerminal, parseCursor, type Session, type SessionEvent, type Turn } from '@breakfall/wire'
import { awayWords, keptFault } from '../daemon/lost.ts'
import type { DaemonClient } from '../daemon/client.ts'
import { shortener, wholeId } from '../sessions/ids.ts'
import type { Viewer } from '../sessions/offline.ts'
import type { Output } from '../render/output.ts'
import { counted } from '../render/counted.ts'
import { paint } from '../render/paint.ts'
import { TurnView } from '../render/turn-view.ts'
import { parkedLines, takeUp } from '../render/waits.ts'

export async function listSessions(client: Viewer, out: Output): Promise<void> {
  const sessions = await client.sessions()
  if (out.json) {
    for (const session of sessions) out.data(session)
    out.result({ count: sessions.length })
    return
  }
  if (sessions.length === 0) {
    out.line('no sessions yet; start one with: breakfall run "PROMPT"')
    return
  }
  const parked = new Map<string, Turn>()
  for (const { state, turnId } of sessions) {
    const turn = state === 'parked' && turnId !== null ? await client.turn(turnId).catch(notFound) : undefined
    if (turn !== undefined) parked.set(turn.sessionId, turn)
  }
  for (const line of sessionTable(sessions, parked, out.style.bind(out))) out.line(line)
}

/** A head line, a line per session, and under a parked one what it waits for. Pure. */
export function sessionTable(
  sessions: readonly Session[],
  parked: ReadonlyMap<string, Turn>,
  style: Output['style'],
): readonly string[] {
  const shortId = shortener(sessions.map(({ id }) => id))
  const rows = sessions.map(({ id, state, model, title, ...rest }) => {
    const folder = typeof rest['workspace'] === 'string' ? rest['workspace'] : '(private)'
    const status = isHalted(state, rest) ? `${state}, nobody runs it` : state
    const cells = [shortId(id), status, folder, model === '' || model === 'default' ? '(default)' : model, title ?? '']
    return cells.map((cell) => cell.replaceAll(/\s+/g, ' ')) // a line break in a name would look like another session
  })
  const widths = HEAD.map((word, column) => Math.max(word.length, ...rows.map((row) => row[column]?.length ?? 0)))
  const padded = (row: readonly string[]): string =>
    row.map((cell, column) => (column === HEAD.length - 1 ? cell : cell.padEnd(widths[column] ?? 0))).join('  ')
  return [
    style('dim', padded(HEAD)),
    ...sessions.flatMap((session, index) => {
      const line = padded(rows[index] ?? []).trimEnd()
      const turn = parked.get(session.id)
      const shown = session.state === 'idle' ? line : style(session.state === 'parked' ? 'yellow' : 'green', line)
      return turn === undefined || turn.parked === null ? [shown] : [shown, ...waitLines(turn, shortId(session.id))]
    }),
  ]
}

/** A session or a turn, whichever has that id. */
export async function show(client: Viewer, given: string, out: Output): Promise<void> {
  const id = await wholeId(client, given)
  const session = await client.session(id).catch(notFound)
  if (session === undefined) return showTurn(await turnOf(client, id), out)
  if (out.json) return out.result(session)
  for (const line of sessionLines(session)) out.line(line)
  const turnId = await lastTurnId(client, session)
  if (turnId !== undefined) showTurn(await client.turn(turnId), out)
}

/** The turn that runs or waits, else the one that ended last. */
export async function lastTurnId(client: Viewer, session: Session): Promise<string | undefined> {
  if (session.turnId !== null) return session.turnId
  if (session.lastSeq === 0 || session['quarantined'] != null) return undefined
  using reading = stopAfterUse()
  for await (const { turnId } of client.events(session.id, { after: session.lastSeq - 1, signal: reading.signal }))
    return turnId
  return undefined
}

/** Its fields, without those that say nothing. Pure. */
export function sessionLines(session: Session): readonly string[] {
  return Object.entries(session)
    .filter(([, value]) => value !== null && value !== '' && (typeof value !== 'object' || hasEntries(value)))
    .map(([key, value]) => `${key.padEnd(10)} ${textOf(value)}`)
}

export async function cancel(client: DaemonClient, id: string, reason: string | undefined, out: Output): Promise<void> {
  const turn = await turnOf(client, id)
  const { lastSeq } = await client.session(turn.sessionId)
  const asked = await client.cancel(turn.id, reason)
  const ended = isOver(asked) ? asked : await after(client, turn, lastSeq, isTerminal)
  showTurn(ended, out, 'the cancel is accepted; it is still ending')
}

export async function resume(client: DaemonClient, id: string, out: Output): Promise<void> {
  const turn = await turnOf(client, id)
  const { lastSeq } = await client.session(turn.sessionId)
  await client.resume(turn.id)
  showTurn(await after(client, turn, lastSeq, ({ type }) => type === 'resumed'), out)
}

/** A session's events from `after` on. Ends with the session's last turn where `follow` is off. */
export async function tail(
  client: Viewer,
  given: string,
  options: { after?: string; follow: boolean; signal: AbortSignal },
  out: Output,
): Promise<void> {
  const sessionId = await sessionIdOf(client, given)
  const cursor = parseCursor(options.after)
  if (cursor === undefined)
    throw new Fault('invalid_request', { error: `--after takes an event's seq or its cursor, got ${options.after}` })
  const { lastSeq } = await client.session(sessionId)
  const view = new TurnView()
  let count = 0
  const isOver = (seq: number): boolean => !options.follow && seq >= lastSeq
  const following = {
    after: options.after ?? 0,
    signal: options.signal,
    onAway: (url: string) => out.say(awayWords(url)),
  }
  try {
    if (!isOver(cursor.seq))
      for await (const event of client.events(sessionId, following)) {
        count++
        if (out.json) out.data(event)
        else paint(out, view.show(event))
        if (isOver(event.seq)) break
        if (isTerminal(event)) separate(out, event)
      }
  } catch (thrown) {
    throw keptFault(thrown, sessionId)
  }
  if (out.json) out.result({ sessionId, count })
}

/** For people. `open` is said of a turn that has not ended. Pure. */
export function turnLines(turn: Turn, open?: string): readonly string[] {
  const lines = [`turn ${turn.id}: ${turn.state}, ${counted(turn.steps, 'step')}, ${counted(turn.attempts, 'attempt')}`]
  if (isHalted(turn.state, turn)) lines.push(`  but nobody runs it; ${takeUp(turn.sessionId)}`)
  if (open !== undefined && !isOver(turn)) lines.push(`  ${open}`)
  if (turn.parked !== null) lines.push(...waitLines(turn))
  if (turn.fault !== null) lines.push(`  ${turn.fault.error}`)
  if (turn.fault !== null && turn.fault.category !== 'cancelled')
    // raw, it says the same again
    lines.push(`  ${turn.fault.category}: ${turn.fault.errorRaw}`)
  if (turn.result !== null) lines.push(turn.result.text)
  return lines
}

// ---- details, in the order they are used above ----

function stopAfterUse(): Disposable & { readonly signal: AbortSignal } {
  const stop = new AbortController()
  return { signal: stop.signal, [Symbol.dispose]: () => stop.abort() }
}

const HEAD = ['SESSION', 'STATE', 'FOLDER', 'MODEL', 'TITLE'] as const

/** Said to be under way in the journal, where nobody runs. */
export const isHalted = (state: string, record: Readonly<Record<string, unknown>>): boolean =>
  record['live'] === false && UNDER_WAY.has(state)

const UNDER_WAY: ReadonlySet<string> = new Set(['busy', 'queued', 'running', 'retrying'])

const waitLines = (turn: Turn, sessionId = turn.sessionId): readonly string[] =>
  turn.parked === null ? [] : parkedLines(turn.parked, sessionId, turn['live'] !== false).map((line) => `  ${line}`)

const hasEntries = (value: unknown): boolean => Object.keys(value ?? {}).length > 0

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  const isPlainList = Array.isArray(value) && value.every((entry) => typeof entry === 'string')
  return isPlainList ? value.join(', ') : JSON.stringify(value)
}

/** The session of that id, or the one that has the turn of that id. */
async function sessionIdOf(client: Viewer, given: string): Promise<string> {
  const id = await wholeId(client, given)
  return (await client.session(id).catch(notFound))?.id ?? (await turnOf(client, id)).sessionId
}

/** The turn of that id, or the current one of the session of that id. */
export async function turnOf(client: Viewer, given: string): Promise<Turn> {
  const id = await wholeId(client, given)
  const turn = await client.turn(id).catch(notFound)
  if (turn !== undefined) return turn
  const session = await client.session(id).catch(notFound)
  if (session === undefined) throw new Fault('not_found', { error: `no session or turn of that id: ${id}` })
  if (session.turnId === null)
    throw new Fault('not_found', { error: `session ${id} is idle: it has no turn that runs or waits` })
  return client.turn(session.turnId)
}

const isOver = ({ state }: Turn): boolean => state === 'finished' || state === 'failed' || state === 'cancelled'

const SETTLED_MS = 1_000

/** The turn as it is after that event, or as it is after a second without it. */
async function after(
  client: DaemonClient,
  { id, sessionId }: Turn,
  lastSeq: number,
  isIt: (event: SessionEvent) => boolean,
): Promise<Turn> {
  const signal = AbortSignal.timeout(SETTLED_MS)
  for await (const event of client.events(sessionId, { after: lastSeq, signal }))
    if (event.turnId === id && isIt(event)) break
  return client.turn(id)
}

function showTurn(turn: Turn, out: Output, open?: string): void {
  if (out.json) out.result(turn)
  else for (const line of turnLines(turn, open)) out.line(line)
}

function separate(out: Output, event: SessionEvent): void {
  if (!out.json) out.line(out.style('dim', `── ${event.type} ${event.turnId}`))
}

function notFound(error: unknown): undefined {
  if (isFault(error) && error.category === 'not_found') return undefined
  throw error
}
