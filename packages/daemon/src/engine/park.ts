/**
 * Parks a turn, and keeps it parked until it can go on.
 *
 * I1  A parked turn resumes once: whoever finds it ready appends `resumed` on the state that still says parked.
 * I2  Waiting costs nothing but a timer; looks get rarer, and all who wait for the same thing share them. Who can go on does
 *     so in turn: five hundred parked turns are no storm, neither while they wait nor when they wake up.
 * I3  Longer than the policy allows it does not wait: it ends, with the category that parked it.
 * I4  A turn that waits for another configuration is woken by one that came while nobody looked, too: what it was parked
 *     under is stored with it.
 */
import { type Fault, faultFrom, type FaultReport, isFault, withDecision } from '@breakfall/faults'
import { within } from '@breakfall/supervisor'
import { deadlineAt } from '../turn/next.ts'
import type { Parked } from '../turn/state.ts'
import { endTurn } from './ending.ts'
import type { LiveSession } from './live-session.ts'
import type { Ports } from './ports.ts'
import { hasRoom } from './room.ts'
import { lookDelayMs, resumeTime, takesConnections, waitText, type WakeKind, wakeKind } from './wake.ts'

type Because = 'time' | 'signal' | 'person' | 'restart'

const LOOK_MS_MAX = 30_000

export async function parkTurn(
  ports: Ports,
  session: LiveSession,
  fault: FaultReport,
  asked: number | null,
): Promise<void> {
  const turn = session.turnNow
  const at = resumeTime(fault, asked, turn.answer.budget.parks, ports.dice(), ports.now())
  const resumeAt = at === null ? null : new Date(at).toISOString()
  const message = { action: waitText(fault, resumeAt) }
  const { report } = faultFrom(fault).with({ turnId: turn.id, message })
  const drafts = [{ type: 'parked', turnId: turn.id, fault: report, resumeAt }] as const
  const data = wakeKind(fault) === 'config' ? { ...session.data, parkedUnder: ports.lastFingerprint() } : undefined // I4
  await session.transact(() => ({ drafts, data }))
}

/** Appends `resumed`, unless somebody else has. True where the turn was parked. */
export async function resumeTurn(session: LiveSession, because: Because): Promise<boolean> {
  const events = await session.transact(({ turn }) =>
    turn?.parked == null ? null : { drafts: [{ type: 'resumed', turnId: turn.id, because }] },
  ) // I1
  return events.length > 0
}

/** Returns when the turn is not parked any more, or when something happened that `next` has to look at. */
export async function stayParked(ports: Ports, session: LiveSession, parked: Parked): Promise<void> {
  const turn = session.turnNow
  const kind = wakeKind(parked.fault)
  const resumeAt = parked.resumeAt === null ? null : Date.parse(parked.resumeAt)
  const spentAt = Date.parse(parked.since) + session.policy.parkMsMax - turn.answer.budget.parkedMs
  const deadline = deadlineAt(turn, session.policy) ?? Number.POSITIVE_INFINITY
  const before = session.data.parkedUnder ?? ports.lastFingerprint()
  for (let look = 0; ; look += 1) {
    const lookAt = ports.now() + nextLook(ports, look) // at the clock, too: timers do not count what a machine slept through
    const until = Math.min(resumeAt ?? Number.POSITIVE_INFINITY, lookAt, spentAt, deadline)
    if (await isPoked(session, until - ports.now())) return
    const now = ports.now()
    if (now >= deadline) return
    if (resumeAt !== null && now >= resumeAt) return goOn(ports, session, 'time')
    if (now >= spentAt) return endTurn(session, waitedTooLong(parked.fault)) // I3
    if (now >= lookAt && (await isReady(ports, session, kind, before))) return goOn(ports, session, 'signal')
  }
}

// ---- details, in the order they are used above ----

const nextLook = (ports: Ports, look: number): number => lookDelayMs(look, ports.dice(), ports.limits.probeMsFirst) // I2

/** True where somebody interrupted the wait: a cancel, a resume, a shutdown. */
async function isPoked(session: LiveSession, ms: number): Promise<boolean> {
  return (await session.isPokedWithin(ms)) || session.fold.turn?.parked == null
}

const waitedTooLong = (fault: FaultReport): Fault =>
  withDecision(faultFrom(fault), { action: 'stop', because: 'park_time_spent' })

async function isReady(ports: Ports, session: LiveSession, kind: WakeKind, before: string): Promise<boolean> {
  const look = lookFor(ports, session, kind, before)
  return (await within(look, LOOK_MS_MAX, { signal: session.signal })) ?? false // the look may go on for others
}

async function lookFor(ports: Ports, session: LiveSession, kind: WakeKind, before: string): Promise<boolean> {
  const { crowd } = ports
  switch (kind) {
    case 'runner': {
      const { runnerId } = session.data
      return crowd.look(`runner ${runnerId ?? 'any'}`, () => ports.runner.probe(runnerId))
    }
    case 'model':
      return crowd.look('model', () => modelAnswers(ports))
    case 'journal':
      return crowd.look('journal', () => hasRoom(ports.stateDir))
    case 'config':
      return (await crowd.look('config', () => ports.fingerprint())) !== before
    case 'time':
    case 'restart':
      return false
  }
}

async function modelAnswers({ localModel, model }: Ports): Promise<boolean> {
  return localModel === undefined ? takesConnections((await model()).baseUrl) : localModel.baseUrl !== null
}

async function goOn(ports: Ports, session: LiveSession, because: Because): Promise<void> {
  if (await isPoked(session, ports.crowd.placeMs())) return // I2
  try {
    await resumeTurn(session, because)
  } catch (thrown) {
    // Still no room for the journal: stay as it is, and look again.
    if (!isFault(thrown) || thrown.category !== 'journal_full') throw thrown
  }
}
