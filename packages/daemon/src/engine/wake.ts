/**
 * How a parked turn learns that it can go on. Time where a time is known, a look from time to time where looking is cheap,
 * a change of the configuration where a person has to act. Pure, apart from the looks themselves.
 */
import { connect } from 'node:net'
import { type FaultCategory, type FaultReport, LIMITS, probeDelayMs } from '@breakfall/faults'

export type WakeKind =
  | 'runner' // the runner answers
  | 'model' // the model's address takes connections
  | 'journal' // there is room again
  | 'config' // somebody changed a key, a token or a setting
  | 'time' // nothing to look at: try again later
  | 'restart' // the daemon is back

export function wakeKind(fault: FaultReport): WakeKind {
  if (fault.category === 'shutting_down') return 'restart'
  // Only at the journal's own disk can be looked: a runner's may be on another machine.
  if (fault.category === 'journal_full') return fault.boundary === 'journal' ? 'journal' : 'time'
  if (fault.next === 'resolve' || fault.phase === 'resolve') return 'runner'
  if (MODEL_AWAY.has(fault.category)) return 'model'
  return fault.class === 'needs_action' ? 'config' : 'time'
}

/** The model server cannot be reached, or the child that serves the model is down. */
const MODEL_AWAY: ReadonlySet<FaultCategory> = new Set([
  'network_down',
  'model_unreachable',
  'process_failed',
  'process_hung',
] satisfies FaultCategory[])

const AGAIN_MS = 60_000
const AGAIN_MS_MAX = 3_600_000
const QUOTA_MS = 3_600_000 // quotas reset by the hour or by the day, and nobody says when

/** When to go on, where that is a matter of time. Twenty parks at most, so they get longer: a minute, two, … an hour. */
export function resumeTime(
  fault: FaultReport,
  asked: number | null,
  parks: number,
  dice: number,
  now: number,
): number | null {
  if (asked !== null) return asked
  const isQuota = fault.category === 'model_quota_exhausted' // resets by itself, or somebody pays, or sets another key
  if (!isQuota && wakeKind(fault) !== 'time') return null
  const first = fault.category === 'journal_full' ? LIMITS.probeMsFirst : AGAIN_MS // somebody is freeing space, or nobody is
  const base = isQuota ? QUOTA_MS : Math.min(AGAIN_MS_MAX, first * 2 ** Math.min(20, parks))
  return now + Math.round(base * (1 + 0.2 * dice)) // spread, so that a crowd does not come back together
}

/** What a parked turn waits for, and what resumes it. */
export function waitText(fault: FaultReport, resumeAt: string | null): string {
  const time = resumeAt === null ? '' : `${resumeAt.slice(0, 19).replace('T', ' ')} UTC`
  switch (wakeKind(fault)) {
    case 'runner':
      return 'The turn waits until its runner answers; a running daemon then resumes it.'
    case 'model':
      return 'The turn waits until the model server accepts connections; a running daemon then resumes it.'
    case 'time':
      return `The turn waits until ${time}; a running daemon then resumes it, and "resume" does so sooner.`
    case 'config': {
      const change = 'a change of the key, the token or the configuration resumes it'
      return resumeAt === null
        ? `The turn waits; ${change}.`
        : `The turn waits until ${time} at most; ${change} sooner.`
    }
    case 'restart':
      return 'The turn waits for the next start of the daemon, which resumes it.'
    case 'journal':
      return 'The turn waits until there is space again; a running daemon then resumes it.'
  }
}

/** Between looks: 5 s, 10 s, … 60 s, spread; scaled where a test wants them quicker. */
export function lookDelayMs(look: number, dice: number, firstMs: number): number {
  return Math.round((probeDelayMs(look, dice) * firstMs) / LIMITS.probeMsFirst)
}

const CONNECT_MS = 5_000

/** Does anything take connections at that address? */
export function takesConnections(baseUrl: string): Promise<boolean> {
  if (!URL.canParse(baseUrl)) return Promise.resolve(false)
  const { hostname, port, protocol } = new URL(baseUrl)
  return new Promise((resolve) => {
    const socket = connect({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
      signal: AbortSignal.timeout(CONNECT_MS),
    })
    const done = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.unref() // a daemon that closes does not wait for it
    socket.once('connect', () => done(true))
    socket.once('error', () => done(false)) // refused, unreachable or too slow: not yet, in every case
  })
}
