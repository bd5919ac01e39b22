/** A staged fleet whose every name and sentence has hidden characters in it, as a model, a server or a provider may send them. */
import type { Event } from './journal.ts'
import { IDS, stageFleet } from './stage.ts'
import type { StagedDaemon } from './staged-daemon.ts'

export const HIDDEN = '\u202e\u200b'

/** Fields that hold what somebody else wrote. The others are ids, times and words of the protocol. */
const FREE = new Set(
  'title prompt model workspace workspaces name version profile url baseUrl line headline tail message advice happened error errorRaw tool why reason daemon finish currency server path text label era description command log sessionTitle stateDir tokenFile'.split(
    ' ',
  ),
)

export async function stageTainted(): Promise<StagedDaemon> {
  const staged = await stageFleet()
  staged.isWild = true // a type from the future is among them
  for (const [id, session] of staged.sessions) staged.sessions.set(id, tainted(session))
  for (const [id, events] of staged.journals) staged.journals.set(id, tainted([...events, ...rare(id, events)]))
  staged.system = tainted(staged.system)
  const { handle } = staged
  staged.handle = (request) => tainted(handle(request))
  return staged
}

// ---- details ----

function tainted<T>(value: T, name?: string): T
function tainted(value: unknown, name = ''): unknown {
  if (typeof value === 'string') return FREE.has(name) ? `${value}${HIDDEN}` : value
  if (Array.isArray(value)) return value.map((one) => tainted(one, name))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, tainted(one, key)]))
}

/** What the journals of the stage do not have. */
function rare(id: string, events: readonly Event[]): readonly Event[] {
  const last = events.at(-1)
  const more = RARE[id]
  if (last === undefined || more === undefined) return []
  return more.map((fields, index) => ({
    sessionId: id,
    turnId: 't1',
    at: last.at,
    ...fields,
    seq: last.seq + index + 1,
  }))
}

const RARE: Readonly<Record<string, readonly (Readonly<Record<string, unknown>> & { readonly type: string })[]>> = {
  [IDS.running]: [
    { type: 'tool-draft', step: 34, attempt: 1, part: 'p9', tool: 'draft', argumentsBytes: 12 },
    { type: 'box-moved', from: `a${HIDDEN}`, to: `b${HIDDEN}`, because: 'lost', filesKept: true },
    { type: `future${HIDDEN}`, deep: { a: HIDDEN } },
    { type: 'model-server', state: 'restarting', since: '2026-11-18T00:00:00.000Z', line: 'loading' },
  ],
  [IDS.parked]: [{ type: 'taken-over', epoch: 3, daemon: 'bf-2' }],
}
