/** The scripted turns of a local fleet, followed through the front door, as any client would. */
import type { DaemonClient } from '@breakfall/client'
import { isTerminal, type SessionEvent } from '@breakfall/wire'
import { newId } from '@breakfall/wire/node'
import type { TurnLine } from './table.ts'

export type FollowedTurn = {
  readonly sessionId: string
  readonly ended: Promise<void>
  line(nr: number, where: { readonly owner: string; readonly runner: string }): TurnLine
}

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
  let state = 'queued'
  let epoch = ''
  let results = 0
  let takeovers = 0
  const see = (event: SessionEvent): void => {
    state = STATES[event.type] ?? state
    if (event.type === 'tool-result') results += 1
    if (event.type !== 'taken-over') return
    takeovers += 1
    epoch = String(event.epoch)
  }
  const ended = (async () => {
    for await (const event of client.events(sessionId)) {
      see(event)
      if (isTerminal(event)) return
    }
  })()
  ended.catch(() => undefined) // the checker reads everything again
  return {
    sessionId,
    ended,
    line: (nr, { owner, runner }) => ({ nr, state, owner, epoch, runner, steps: `${results}/${steps}`, takeovers }),
  }
}

/** All events of a session whose turn has ended. */
export async function eventsAt(client: DaemonClient, sessionId: string): Promise<readonly SessionEvent[]> {
  const events: SessionEvent[] = []
  for await (const event of client.events(sessionId)) {
    events.push(event)
    if (isTerminal(event)) break
  }
  return events
}

// ---- details ----

const STATES: Readonly<Record<string, string>> = {
  'turn-start': 'started',
  'step-start': 'asking',
  'text-delta': 'answering',
  'tool-call': 'running',
  'tool-result': 'asking',
  parked: 'parked',
  resumed: 'resumed',
  'taken-over': 'taken over',
  'turn-end': 'finished',
  'turn-error': 'failed',
}
