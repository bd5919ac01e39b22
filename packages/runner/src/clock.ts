/** The system clock. Everything else takes a `Clock` as an argument. */
import { readFileSync } from 'node:fs'

export type Clock = {
  /** Wall time, for what people read. */
  readonly now: () => number
  /** Milliseconds since the machine booted: the same in every process, and unaffected by clock changes. */
  readonly monotonicMs: () => number
  /** Changes when the machine reboots; nothing that ran before can still run then. */
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
    // Without a boot id, reboots look the same; pids with start times still identify processes.
    return 'unknown'
  }
}
