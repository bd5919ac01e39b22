/** The edge where time comes in. Everything else takes a clock. */
import { readFileSync } from 'node:fs'

export type Clock = {
  /** Wall time, for what people read. */
  readonly now: () => number
  /** Milliseconds since the machine started: the same in every process, and no clock change moves it. */
  readonly monotonicMs: () => number
  /** Changes when the machine starts anew; then nothing that ran before still runs. */
  readonly machineBootId: string
}

export function systemClock(): Clock {
  return {
    now: () => Date.now(),
    monotonicMs: () => Number(process.hrtime.bigint() / 1_000_000n),
    machineBootId: machineBootId(),
  }
}

export const isoTime = (ms: number): string => new Date(ms).toISOString()

function machineBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    // A kernel without one cannot tell restarts of the machine apart; pids with start times still tell processes apart.
    return 'unknown'
  }
}
