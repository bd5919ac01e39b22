/** `breakfall show`: a session with its turns, or one turn; with a daemon or without. */
import { DaemonClient, type SessionViewer, type TurnPage } from '@breakfall/client'
import type { Turn } from '@breakfall/wire'
import type { Context } from '../../command-line/context.ts'
import { cmd } from '../../process/command-name.ts'
import { leftRunning } from '../../render/processes.ts'
import { sessionLines } from '../../render/session-lines.ts'
import { showTurn, turnLines } from '../../render/turn-lines.ts'
import { TurnView } from '../../render/turn-view.ts'
import { processesOfSession } from '../../sessions/background.ts'
import { fullId, ifNotFound, turnFor } from '../../sessions/lookup.ts'
import { viewerFor } from '../../sessions/viewer.ts'
import { counted } from '../../text/amounts.ts'

/** Shows the session or the turn with that id. */
export async function showCommand(context: Context, input: string): Promise<void> {
  const { out, config } = context
  const viewer = await viewerFor(context)
  const id = await fullId(viewer, input)
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

// ---- details, in the order they are used above ----

const TURNS_SHOWN = 5

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
