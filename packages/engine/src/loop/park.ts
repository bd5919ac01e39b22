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
import { decide, Fault, faultFrom, type FaultReport, isFault, withDecision } from '@breakfall/faults'
import type { EventDraft, EventDraftOf } from '@breakfall/wire'
import { waitOf, type WaitsFor } from '@breakfall/wire/turn'
import type { Clock } from '../clock.ts'
import type { ConfigReader } from '../live-config.ts'
import type { Parked, TurnFold } from '../turn/state.ts'
import { deadlineAt } from '../turn/next.ts'
import { type Due, dueAt, expiryOf, probeIntervalMs, resumeTime, waitOfTurn, waitText } from '../turn/wait.ts'
import { endTurn, stopTurn } from './end-turn.ts'
import { KEY_GONE, type Providers } from '../providers/providers.ts'
import type { Runners } from '../runner/runners.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import type { Pacing } from './pacing.ts'
import type { ToolCatalog } from '../tools/catalog.ts'
import { placementRequest } from '../runner/placement.ts'

type Because = 'time' | 'signal' | 'person' | 'restart'

const PROBE_MS_MAX = 30_000
const IN_USE_MS = 1_000 // a request has the session now, and gives it up when it is done

/** What a parked turn may wait for. */
export type WaitPort = {
  /** Shared by all parked turns. */
  readonly pacing: Pacing
  readonly probeMsFirst: number
  readonly providers: Providers
  readonly runners: Runners
  readonly tools: ToolCatalog
  readonly config: Pick<ConfigReader, 'read' | 'runnerFingerprint'>
}

/** `asked`: the approval that it waits for. */
export async function parkTurn(
  waits: WaitPort,
  session: OwnedSession,
  fault: FaultReport,
  requestedAt: number | null,
  { because, asked }: { readonly because?: string; readonly asked?: EventDraftOf<'approval-requested'> } = {},
): Promise<void> {
  const turn = session.currentTurn
  const now = session.clock.now()
  const at = resumeTime(fault, requestedAt, turn.answer.budget.parks, session.clock.dice(), now)
  const resumeAt = at === null ? null : new Date(at).toISOString()
  const open = waitOf({ fault, resumeAt })
  const wait = { ...open, expiresAt: expiryOf(open, new Date(now).toISOString(), turn, session.policy, asked) }
  const { report } = faultFrom(fault).with({ turnId: turn.id, message: { action: waitText(wait, fault) } })
  const drafts: readonly EventDraft[] = [
    ...(asked === undefined ? [] : [asked]),
    { type: 'parked', turnId: turn.id, fault: report, resumeAt, because, wait, ...session.unsaid },
  ]
  const data = wait.for === 'config' ? { ...session.data, parkedUnder: settingsOf(waits, session, fault) } : undefined // I4
  await session.transact(() => ({ drafts, data }))
}

/** The turn has used up its steps, or repeats itself, and nothing has failed: it asks a person whether to continue, or ends if it may not park. */
export async function askForSteps(waits: WaitPort, session: OwnedSession): Promise<void> {
  const { policy, currentTurn: turn } = session
  const limit = `${policy.stepsMax} step${policy.stepsMax === 1 ? '' : 's'}`
  const isRepeating = turn.step - turn.stepsFrom < policy.stepsMax
  const fault = isRepeating ? repeating(turn) : new Fault('steps_spent', { facts: { limit }, reason: 'steps_spent' })
  const situation = { at: 'limit', because: 'steps_spent', deadlineAt: deadlineAt(turn, policy) } as const
  const decision = decide(fault.report, situation, policy, session.clock.now())
  if (decision.action === 'park') return parkTurn(waits, session, fault.report, null, { because: decision.because })
  await stopTurn(waits.tools, session, [], withDecision(fault, decision).with({ next: 'never' }))
}

function repeating({ calls, repeated }: OwnedSession['currentTurn']): Fault {
  const happened = `The turn made the same call to ${calls[0]?.tool} ${repeated.times} times in a row, each with the same result.`
  const advice =
    'Resume it or send another prompt to continue; --repeats-max (repeatsMax in a config or a request) allows more.'
  return new Fault('steps_spent', { reason: 'repeats', message: { happened, advice } })
}

/** Appends `resumed`, unless it was appended already. True if the turn was parked. */
export async function resumeTurn(session: OwnedSession, because: Because): Promise<boolean> {
  const events = await session.transact(({ turn }) =>
    turn?.parked == null ? null : { drafts: [{ type: 'resumed', turnId: turn.id, because }] },
  ) // I1
  return events.length > 0
}

/**
 * Waits until something is to be done about a parked turn, and does it. Returns when `next` must look again: the turn was resumed or
 * has ended, its deadline has passed, or something woke the session, which also ends the wait for a probe.
 */
export async function stayParked(waits: WaitPort, session: OwnedSession, parked: Parked): Promise<void> {
  const { clock, currentTurn: turn } = session
  if (isAskedInVain(session, turn)) return void (await resumeTurn(session, 'signal'))
  const wait = waitOfTurn(turn, parked, session.policy)
  const settings = (): string => settingsOf(waits, session, parked.fault)
  const before = session.settingsIgnored ?? session.data.parkedUnder ?? settings()
  const hasChanged = (): boolean => isChanged(settings(), before)
  const deadline = deadlineAt(turn, session.policy)
  const seen = session.waitSince(parked.since)
  const [start, from] = [clock.now(), clock.elapsed()]
  const reached = (): number => Math.max(clock.now(), start + clock.elapsed() - from) // a clock that is turned back delays nothing
  for (let probe = 0; ; probe += 1) {
    // By the clock, too: timers do not run while a machine sleeps. A session that is not kept was claimed to probe now (I5).
    const probeAt = reached() + (session.isKept ? nextProbe(waits, clock, wait.for, probe) : 0)
    const due = (): Due => {
      const [now, wall] = [reached(), clock.now()]
      const ends = deadline === null ? null : deadline + now - wall // the turn's deadline goes by the clock on the wall
      return dueAt(wait, now, { deadline: ends, probeAt, aheadMs: Math.max(0, wall - seen()) })
    }
    if (await isWoken(session, due().at - reached())) return
    switch (due().now) {
      case 'deadline':
        return
      case 'resume':
        return resumePaced(waits, session, 'time')
      case 'expiry':
        return endTurn(waits.tools, session, waitedTooLong(parked.fault)) // I3
      case 'probe': {
        const found = await session.unlessWoken((signal) => isReady(waits, session, wait.for, hasChanged, signal))
        if (found === 'woken') return
        if (found) return resumePaced(waits, session, 'signal')
        if (session.isKept) break
        await session.giveUp() // I5
        if (!session.isLost) await session.sleepUnlessWoken(IN_USE_MS)
        return
      }
      case null: // a timer may be early
    }
  }
}

// ---- details, in the order they are used above ----

/** Its server waits for the answer no more, or the process that held its call is gone: the call ends without it. */
function isAskedInVain({ held }: OwnedSession, { calls }: TurnFold): boolean {
  const asking = calls.find(({ result, approval }) => result === null && approval?.decision === null)
  const { question, continues } = asking?.approval ?? {}
  if (asking === undefined || question === undefined) return false
  const open = held.get(asking.callId)
  return open === undefined ? continues === undefined : !open.awaits(question.id)
}

const nextProbe = ({ probeMsFirst }: WaitPort, { dice }: Clock, source: WaitsFor, probe: number): number =>
  probeIntervalMs(source, probe, dice(), probeMsFirst) // I2

/** True if a cancel, a resume or a shutdown ended the wait. */
async function isWoken(session: OwnedSession, ms: number): Promise<boolean> {
  return (await session.sleepUnlessWoken(ms)) === 'woken' || session.fold.turn?.parked == null
}

const waitedTooLong = (fault: FaultReport): Fault =>
  withDecision(faultFrom(fault), { action: 'stop', because: 'park_time_spent' })

/** I4 */
export function settingsOf({ providers, config, tools }: WaitPort, session: OwnedSession, fault: FaultReport): string {
  if (fault.boundary === 'mcp') return tools.fingerprint
  if (fault.boundary !== 'model' && fault.boundary !== 'process') return config.runnerFingerprint
  return providers.fingerprint(session.id, session.data, session.currentTurn)
}

/** A restart that lost the key is no change for the better. */
const isChanged = (now: string, before: string): boolean => now !== before && now !== KEY_GONE

async function isReady(
  waits: WaitPort,
  session: OwnedSession,
  source: WaitsFor,
  hasChanged: () => boolean,
  signal: AbortSignal,
): Promise<boolean> {
  const isReadyNow = probeFor(waits, session, source, hasChanged, signal)
  return (await session.clock.within(isReadyNow, PROBE_MS_MAX, { signal })) ?? false // others may still wait for the probe
}

async function probeFor(
  waits: WaitPort,
  session: OwnedSession,
  source: WaitsFor,
  hasChanged: () => boolean,
  signal: AbortSignal,
): Promise<boolean> {
  const { pacing, runners } = waits
  switch (source) {
    case 'runner': {
      const { runnerId } = session.data
      const wanted = placementRequest(session.data)
      const what = `runner ${runnerId ?? 'any'} ${JSON.stringify(wanted)}`
      const probe = (): Promise<boolean> => runners.probe(runnerId, wanted)
      return session.isKept ? pacing.probe(what, signal, probe) : pacing.freshProbe(what, probe)
    }
    case 'model':
      return modelAnswers(waits, session, signal)
    case 'journal':
      return pacing.probe('journal', signal, () => session.hasSpace())
    case 'config':
      await pacing.probe('config', signal, async () => (await waits.config.read()) !== undefined)
      return hasChanged()
    case 'time':
    case 'restart':
    case 'person':
      return false
  }
}

/** Turns that wait for the same server share a look at the configuration, too. */
async function modelAnswers(
  { providers, pacing }: WaitPort,
  session: OwnedSession,
  signal: AbortSignal,
): Promise<boolean> {
  const { name = '', baseUrl = '' } = session.currentTurn.provider ?? {}
  return pacing.probe(`model ${name} ${baseUrl}`, signal, async (over) => {
    const { endpoint, served } = await providers.forTurn(session.id, session.data, session.currentTurn)
    return served === undefined
      ? acceptsConnections(endpoint.baseUrl, AbortSignal.any([over, session.clock.timeout(CONNECT_MS)]))
      : served.probe()
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
      signal,
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

async function resumePaced({ pacing }: WaitPort, session: OwnedSession, because: Because): Promise<void> {
  if (await isWoken(session, pacing.startDelayMs())) return // I2
  try {
    await resumeTurn(session, because)
  } catch (thrown) {
    // The disk is still full: stay parked and probe again.
    if (!isFault(thrown) || thrown.category !== 'journal_full') throw thrown
  }
}
