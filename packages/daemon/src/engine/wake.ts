/**
 * What wakes a parked turn: a time if one is known, a cheap probe now and then, or a change of the configuration if a person has
 * to act. Pure, apart from the probe itself.
 */
import { connect } from 'node:net'
import { type FaultCategory, type FaultReport, LIMITS } from '@breakfall/faults'
import { probeDelayMs } from '@breakfall/faults/internal'

export type WakeSource =
  | 'runner' // the runner answers
  | 'model' // the model's address accepts connections
  | 'journal' // there is disk space again
  | 'config' // a key, a token or a setting changed
  | 'time' // nothing to probe: try again later
  | 'restart' // the daemon is back
  | 'person' // a person says so

export function wakeSource(fault: FaultReport): WakeSource {
  if (fault.category === 'shutting_down') return 'restart'
  if (fault.reason === 'steps_spent' || fault.category === 'approval_needed') return 'person'
  // Only the journal's own disk can be probed: a runner's disk may be on another machine.
  if (fault.category === 'journal_full') return fault.boundary === 'journal' ? 'journal' : 'time'
  if (fault.category === 'runner_not_available' || fault.next === 'resolve' || fault.phase === 'resolve')
    return 'runner'
  if (MODEL_AWAY.has(fault.category) || fault.serve?.state === 'given_up') return 'model'
  return fault.class === 'needs_action' ? 'config' : 'time'
}

/** The model server cannot be reached, or the child that serves the model is down. */
const MODEL_AWAY: ReadonlySet<FaultCategory> = new Set([
  'network_down',
  'model_unreachable',
  'process_failed',
  'process_hung',
  'crash_loop',
] satisfies FaultCategory[])

const AGAIN_MS = 60_000
const BROKEN_ANSWER_MS = 5_000
const AGAIN_MS_MAX = 3_600_000
const QUOTA_MS = 3_600_000 // quotas reset by the hour or by the day, and providers rarely say when

/**
 * When to resume, if that is a matter of time. A turn without progress parks at most twenty times, so parks grow: a minute, two,
 * … an hour. They start at five seconds if answers broke off: the server is there, and the next one may get through.
 */
export function resumeTime(
  fault: FaultReport,
  requestedAt: number | null,
  parks: number,
  dice: number,
  now: number,
): number | null {
  if (requestedAt !== null) return requestedAt
  const isQuota = fault.category === 'model_quota_exhausted' // resets on its own, or is raised, or another key is set
  if (!isQuota && wakeSource(fault) !== 'time') return null
  const base = isQuota ? QUOTA_MS : Math.min(AGAIN_MS_MAX, firstWaitMs(fault) * 2 ** Math.min(20, parks))
  return now + Math.round(base * (1 + 0.2 * dice)) // jitter keeps many turns from resuming together
}

function firstWaitMs(fault: FaultReport): number {
  if (fault.category === 'journal_full') return LIMITS.probeMsFirst // space may be freed any moment
  return isBrokenAnswer(fault) ? BROKEN_ANSWER_MS : AGAIN_MS
}

/** A request that was accepted and an answer that then failed. */
const isBrokenAnswer = ({ boundary, phase }: FaultReport): boolean => boundary === 'model' && phase === 'stream'

/** What a parked turn waits for, and what resumes it. */
export function waitText(fault: FaultReport, resumeAt: string | null): string {
  const time = resumeAt === null ? '' : `${resumeAt.slice(0, 19).replace('T', ' ')} UTC`
  switch (wakeSource(fault)) {
    case 'runner':
      if (fault.category === 'runner_not_available')
        return 'The turn waits until a runner that fits joins, or has room; a running daemon then resumes it.'
      return 'The turn waits until its runner answers; a running daemon then resumes it.'
    case 'model':
      if (fault.serve?.state === 'given_up')
        return 'The turn waits; a change of the command, the configuration or the model file, "resume" or a later attempt starts the server again.'
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
    case 'person':
      if (fault.category === 'approval_needed') return 'The turn waits for your answer; the call has not run.'
      return 'The turn waits; "resume" gives it as many steps again, and another prompt continues the conversation.'
    case 'journal':
      return 'The turn waits until there is space again; a running daemon then resumes it.'
  }
}

/** Between probes: 5 s, 10 s, … 60 s, with jitter; tests scale them down. */
export function probeIntervalMs(probe: number, dice: number, firstMs: number): number {
  return Math.round((probeDelayMs(probe, dice) * firstMs) / LIMITS.probeMsFirst)
}

const CONNECT_MS = 5_000

/** Whether anything accepts connections at that address. */
export function acceptsConnections(baseUrl: string): Promise<boolean> {
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
    socket.unref() // a closing daemon does not wait for it
    socket.once('connect', () => done(true))
    socket.once('error', () => done(false)) // refused, unreachable or too slow: not ready yet
  })
}
