/**
 * Evidence that a process works: CPU time, memory, reads and page faults of its whole family. A slow server shows some of it, a
 * hung one shows none. Linux only; elsewhere there is no evidence.
 */
import { HAS_PROCESS_TABLE, type Usage, usageOf } from './platform.ts'
import { familyOf, type Leader } from './process-table.ts'

export type VitalSigns = Usage & {
  /** One of its processes was stopped with SIGSTOP. */
  readonly isStopped: boolean
  /** One of its processes waits for the disk: it reads its weights, or the machine swaps. */
  readonly isBlocked: boolean
}

/** Undefined if this system does not show it, or if the process is gone. Reads every process on the machine: call it rarely. */
export function readVitalSigns(leader: Leader): VitalSigns | undefined {
  if (!HAS_PROCESS_TABLE) return undefined
  const family = familyOf(leader)
  if (family.length === 0) return undefined
  const usage = family.map(({ pid }) => usageOf(pid))
  const total = (name: keyof Usage): number => usage.reduce((sum, entry) => sum + entry[name], 0)
  return {
    isStopped: family.some(({ state }) => state === 'T'),
    isBlocked: family.some(({ state }) => state === 'D'),
    cpuMs: total('cpuMs'),
    residentBytes: total('residentBytes'),
    readBytes: total('readBytes'),
    majorFaults: total('majorFaults'),
  }
}

/** It did something in that time. More than what answering a health check now and then costs. */
export function hasWorked(before: VitalSigns, after: VitalSigns, elapsedMs: number): boolean {
  const cpuMs = Math.abs(after.cpuMs - before.cpuMs) // less: one of its processes has ended
  return cpuMs >= Math.max(CPU_MS_MIN, elapsedMs * CPU_SHARE_MIN) || after.isBlocked || hasRead(before, after)
}

/** Its memory or its files moved: it is reading its weights, or the machine swaps. */
export function hasRead(before: VitalSigns, after: VitalSigns): boolean {
  return (
    Math.abs(after.residentBytes - before.residentBytes) >= RESIDENT_BYTES_MIN ||
    after.readBytes - before.readBytes >= READ_BYTES_MIN ||
    after.majorFaults - before.majorFaults >= MAJOR_FAULTS_MIN
  )
}

// ---- details ----

const CPU_MS_MIN = 30 // the kernel counts in steps of 10 ms
const CPU_SHARE_MIN = 0.01 // of one core
const RESIDENT_BYTES_MIN = 8 * 1024 * 1024 // the heap of an idle server breathes by less
const READ_BYTES_MIN = 1024 * 1024
const MAJOR_FAULTS_MIN = 8
