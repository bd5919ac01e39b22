/** What holds after every failure: the same events at every daemon, one end for each turn, no gap, and epochs that only grow. */
import assert from 'node:assert/strict'
import { isTerminal, type SessionEvent } from '@breakfall/wire'
import { assertNoGap } from '../../packages/daemon/test/support/api.ts'
import { eventually } from '../../test/kit/wait.ts'
import type { FleetDaemon, FleetRig } from './rig.ts'

export async function sameEverywhere(
  daemons: readonly FleetDaemon[],
  sessionId: string,
  turnId: string,
): Promise<SessionEvent[]> {
  const tails = await Promise.all(daemons.map((daemon) => tailOf(daemon, sessionId, turnId)))
  for (const tail of tails) assert.deepEqual(tail, tails[0])
  const events = tails[0] ?? []
  assertNoGap(events)
  assert.equal(events.filter((event) => isTerminal(event) && event.turnId === turnId).length, 1)
  return events
}

/** As a client reads them: if the connection breaks, it continues after the last event it has. */
export async function tailOf({ name, api }: FleetDaemon, sessionId: string, turnId: string): Promise<SessionEvent[]> {
  const events: SessionEvent[] = []
  const isEnd = (event: SessionEvent | undefined): boolean =>
    event !== undefined && isTerminal(event) && event.turnId === turnId
  await eventually(`${name} has told the end of the turn`, async () => {
    try {
      events.push(...(await api.events(sessionId, isEnd, events.at(-1)?.seq ?? 0)))
    } catch {
      return false // its database is away, or it is
    }
    return isEnd(events.at(-1))
  })
  return events
}

/** One writer for each epoch: as the rows themselves say. */
export async function assertEpochsGrow({ database }: FleetRig, sessionId: string): Promise<readonly number[]> {
  const rows = await database.query('SELECT epoch FROM events WHERE session_id = $1 ORDER BY seq', [sessionId])
  const epochs = rows.map(({ epoch }) => Number(epoch))
  assert.deepEqual(
    epochs,
    epochs.toSorted((a, b) => a - b),
  )
  return epochs
}
