/** The model server that a fault is about, if Breakfall runs that server itself. */
import { isReadable, read } from './read.ts'

export const SERVE_STATES = ['loading', 'ready', 'busy', 'hung', 'restarting', 'given_up'] as const
export type ServeState = (typeof SERVE_STATES)[number]

export type ServeFacts = {
  /** Counts its starts, from 1. */
  readonly boot: number
  readonly pid: number | null
  readonly state: ServeState
  /** How this boot ended. Null while it runs. */
  readonly exit: { readonly code: number | null; readonly signal: string | null } | null
}

/** Reads them from anything. Undefined if they are not there, or not readable. */
export function serveFactsIn(value: unknown): ServeFacts | undefined {
  if (!isReadable(value)) return undefined
  const boot = whole(read(value, 'boot'))
  const state = SERVE_STATES.find((name) => name === read(value, 'state'))
  if (boot === null || state === undefined) return undefined
  const exit = read(value, 'exit')
  return { boot, pid: whole(read(value, 'pid')), state, exit: isReadable(exit) ? exitIn(exit) : null }
}

// ---- details ----

function exitIn(exit: object): NonNullable<ServeFacts['exit']> {
  const signal = read(exit, 'signal')
  return { code: whole(read(exit, 'code')), signal: typeof signal === 'string' ? signal.slice(0, 20) : null }
}

const whole = (value: unknown): number | null =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 ? Math.abs(value) : null // JSON has no -0
