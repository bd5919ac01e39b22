/** The system clock. Everything else takes a `Clock` as an argument. */
import { bootId } from '@breakfall/supervisor/platform'

export type Clock = {
  /** Wall time, for what people read. */
  readonly now: () => number
  /** Milliseconds since the machine booted: the same in every process, and unaffected by clock changes. */
  readonly monotonicMs: () => number
  /** Changes when the machine reboots; nothing that ran before can still run then. If unknown, pids with start times still identify processes. */
  readonly machineBootId: string
}

export function systemClock(): Clock {
  return {
    now: () => Date.now(),
    monotonicMs: () => Number(process.hrtime.bigint() / 1_000_000n),
    machineBootId: bootId(),
  }
}

export const isoTime = (ms: number): string => new Date(ms).toISOString()
