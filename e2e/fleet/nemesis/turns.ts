/** The scripted turns of a fleet, followed through the front door, as any client would. */
import type { DaemonClient } from '@breakfall/client'
import { isTerminal, type SessionEvent } from '@breakfall/wire'
import { newId } from '@breakfall/wire/node'

export type FollowedTurn = { readonly sessionId: string; readonly ended: Promise<unknown> }

/** `steps`: how many commands it runs. */
export async function startTurn(
  client: DaemonClient,
  { isolation, steps }: { readonly isolation: 'bwrap' | 'process'; readonly steps: number },
): Promise<FollowedTurn> {
  const { id: sessionId } = await client.createSession({
    title: 'fleet',
    box: { isolation: { level: isolation } },
    policy: { approve: 'never' }, // its commands are scripted
  })
  await client.prompt(sessionId, `steps ${steps}`, { key: newId() })
  const ended = eventsAt(client, sessionId)
  ended.catch(() => undefined) // the checker reads everything again
  return { sessionId, ended }
}

/** All events of a session, up to the end of its turn. */
export async function eventsAt(client: DaemonClient, sessionId: string): Promise<readonly SessionEvent[]> {
  const events: SessionEvent[] = []
  for await (const event of client.events(sessionId)) {
    events.push(event)
    if (isTerminal(event)) break
  }
  return events
}
