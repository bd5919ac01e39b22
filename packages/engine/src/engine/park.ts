/**
 * Parks a turn, and keeps it parked until it can continue.
 *
 * I1  A parked turn resumes once: `resumed` is appended only to a state that is still parked.
 * I2  Waiting costs only a timer. Probes become less frequent, and turns that wait for the same thing share them. Turns that are
 *     ready resume one after another: five hundred parked turns cause no storm, neither while they wait nor when they wake up.
 * I3  A turn that has waited for as long as its policy allows ends, with the category that parked it. `dueAt` says when.
 * I4  A turn that waits for a setting wakes up for its own settings only: its provider and key, or the runner. It also wakes up if
 *     they changed while no daemon was running: the fingerprint under which it was parked is stored with it.
 * I5  In a shared store a parked turn has no owner. Whoever claims it when it is due looks once, and resumes it or gives it up again.
 */
import { connect } from 'node:net'
import { type Fault, faultFrom, type FaultReport, isFault, withDecision } from '@breakfall/faults'
import type { EventDraft, EventDraftOf } from '@breakfall/wire'
import { within } from '@breakfall/faults/internal'
import { waitOf, type WaitsFor } from '@breakfall/wire/turn'
import type { Parked } from '../turn/state.ts'
import { deadlineAt } from '../turn/next.ts'
import { type Due, dueAt, expiryOf, probeIntervalMs, resumeTime, waitOfTurn, waitText } from '../turn/wait.ts'
import { endTurn } from './ending.ts'
import { KEY_GONE } from '../providers/providers.ts'
import type { LiveSession } from './live-session.ts'
import type { Ports } from './ports.ts'
import { hasDiskSpace } from './disk-space.ts'
import { wantedOf } from './wanted.ts'

type Because = 'time' | 'signal' | 'person' | 'restart'

const PROBE_MS_MAX = 30_000
const IN_USE_MS = 1_000 // a request has the session now, and gives it up when it is done

/** `asked`: the approval that it waits for. */
export async function parkTurn(
  ports: Ports,
  session: LiveSession,
  fault: FaultReport,
  requestedAt: number | null,
  because?: string,
  asked?: EventDraftOf<'approval-requested'>,
): Promise<void> {
  const turn = session.currentTurn
  const now = ports.now()
  const at = resumeTime(fault, requestedAt, turn.answer.budget.parks, ports.dice(), now)
  const resumeAt = at === null ? null : new Date(at).toISOString()
  const open = waitOf({ fault, resumeAt })
  const wait = { ...open, expiresAt: expiryOf(open, new Date(now).toISOString(), turn, session.policy, asked) }
  const { report } = faultFrom(fault).with({ turnId: turn.id, message: { action: waitText(wait, fault) } })
  const drafts: readonly EventDraft[] = [
    ...(asked === undefined ? [] : [asked]),
    { type: 'parked', turnId: turn.id, fault: report, resumeAt, because, wait, ...session.unsaid },
  ]
  const data = wait.for === 'config' ? { ...session.data, parkedUnder: settingsOf(ports, session, fault) } : undefined // I4
  await session.transact(() => ({ drafts, data }))
}

/** Appends `resumed`, unless it was appended already. True if the turn was parked. */
export async function resumeTurn(session: LiveSession, because: Because): Promise<boolean> {
  const events = await session.transact(({ turn }) =>
    turn?.parked == null ? null : { drafts: [{ type: 'resumed', turnId: turn.id, because }] },
  ) // I1
  return events.length > 0
}

/**
 * Waits until something is to be done about a parked turn, and does it. Returns when `next` must look again: the turn was resumed or
 * has ended, its deadline has passed, or something woke the session, which also ends the wait for a probe.
 */
export async function stayParked(ports: Ports, session: LiveSession, parked: Parked): Promise<void> {
  const turn = session.currentTurn
  const wait = waitOfTurn(turn, parked, session.policy)
  const settings = (): string => settingsOf(ports, session, parked.fault)
  const before = session.settingsIgnored ?? session.data.parkedUnder ?? settings()
  const hasChanged = (): boolean => isChanged(settings(), before)
  const { isShared } = ports.store
  const deadline = deadlineAt(turn, session.policy)
  const seen = session.waitSince(parked.since)
  for (let probe = 0; ; probe += 1) {
    // By the clock, too: timers do not run while a machine sleeps. In a shared store, the time to probe is when it is claimed (I5).
    const probeAt = ports.now() + (isShared ? 0 : nextProbe(ports, wait.for, probe))
    const due = (): Due => {
      const now = ports.now()
      return dueAt(wait, now, { deadline, probeAt, aheadMs: Math.max(0, now - seen()) })
    }
    if (await isWoken(session, due().at - ports.now())) return
    switch (due().now) {
      case 'deadline':
        return
      case 'resume':
        return resumePaced(ports, session, 'time')
      case 'expiry':
        return endTurn(ports, session, waitedTooLong(parked.fault)) // I3
      case 'probe': {
        const found = await session.unlessWoken((signal) => isReady(ports, session, wait.for, hasChanged, signal))
        if (found === 'woken') return
        if (found) return resumePaced(ports, session, 'signal')
        if (!isShared) break
        await session.giveUp() // I5
        if (!session.isLost) await session.sleepUnlessWoken(IN_USE_MS)
        return
      }
      case null: // a timer may be early
    }
  }
}

// ---- details, in the order they are used above ----

const nextProbe = (ports: Ports, source: WaitsFor, probe: number): number =>
  probeIntervalMs(source, probe, ports.dice(), ports.limits.probeMsFirst) // I2

/** True if a cancel, a resume or a shutdown ended the wait. */
async function isWoken(session: LiveSession, ms: number): Promise<boolean> {
  return (await session.sleepUnlessWoken(ms)) === 'woken' || session.fold.turn?.parked == null
}

const waitedTooLong = (fault: FaultReport): Fault =>
  withDecision(faultFrom(fault), { action: 'stop', because: 'park_time_spent' })

/** I4 */
export function settingsOf(
  { providers, runnerFingerprint, outside }: Ports,
  session: LiveSession,
  fault: FaultReport,
): string {
  if (fault.boundary === 'mcp') return outside.fingerprint
  if (fault.boundary !== 'model' && fault.boundary !== 'process') return runnerFingerprint()
  return providers.fingerprint(session.id, session.data, session.currentTurn)
}

/** A restart that lost the key is no change for the better. */
const isChanged = (now: string, before: string): boolean => now !== before && now !== KEY_GONE

async function isReady(
  ports: Ports,
  session: LiveSession,
  source: WaitsFor,
  hasChanged: () => boolean,
  signal: AbortSignal,
): Promise<boolean> {
  const isReadyNow = probeFor(ports, session, source, hasChanged, signal)
  return (await within(isReadyNow, PROBE_MS_MAX, { signal })) ?? false // others may still wait for the probe
}

async function probeFor(
  ports: Ports,
  session: LiveSession,
  source: WaitsFor,
  hasChanged: () => boolean,
  signal: AbortSignal,
): Promise<boolean> {
  const { pacing } = ports
  switch (source) {
    case 'runner': {
      const { runnerId } = session.data
      const wanted = wantedOf(session.data)
      const what = `runner ${runnerId ?? 'any'} ${JSON.stringify(wanted)}`
      const probe = (): Promise<boolean> => ports.runner.probe(runnerId, wanted)
      return ports.store.isShared ? pacing.freshProbe(what, probe) : pacing.probe(what, signal, probe)
    }
    case 'model':
      return modelAnswers(ports, session, signal)
    case 'journal':
      return pacing.probe('journal', signal, () => hasDiskSpace(ports.stateDir))
    case 'config':
      await pacing.probe('config', signal, async () => (await ports.readConfig()) !== undefined)
      return hasChanged()
    case 'time':
    case 'restart':
    case 'person':
      return false
  }
}

/** Turns that wait for the same server share a look at the configuration, too. */
async function modelAnswers({ providers, pacing }: Ports, session: LiveSession, signal: AbortSignal): Promise<boolean> {
  const { name = '', baseUrl = '' } = session.currentTurn.provider ?? {}
  return pacing.probe(`model ${name} ${baseUrl}`, signal, async (over) => {
    const { endpoint, served } = await providers.forTurn(session.id, session.data, session.currentTurn)
    return served === undefined ? acceptsConnections(endpoint.baseUrl, over) : served.probe()
  })
}

const CONNECT_MS = 5_000

/** Whether anything accepts connections at that address. */
function acceptsConnections(baseUrl: string, signal: AbortSignal): Promise<boolean> {
  if (!URL.canParse(baseUrl)) return Promise.resolve(false)
  const { hostname, port, protocol } = new URL(baseUrl)
  return new Promise((resolve) => {
    const socket = connect({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
      signal: AbortSignal.any([signal, AbortSignal.timeout(CONNECT_MS)]),
    })
    const done = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.unref() // a closing daemon does not wait for it
    socket.once('connect', () => done(true))
    socket.once('error', () => done(false)) // refused, unreachable, too slow or not waited for any more: not ready yet
  })
}

async function resumePaced(ports: Ports, session: LiveSession, because: Because): Promise<void> {
  if (await isWoken(session, ports.pacing.startDelayMs())) return // I2
  try {
    await resumeTurn(session, because)
  } catch (thrown) {
    // The disk is still full: stay parked and probe again.
    if (!isFault(thrown) || thrown.category !== 'journal_full') throw thrown
  }
}
