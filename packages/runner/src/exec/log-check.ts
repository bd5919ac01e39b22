/** Checks whether the index of an exec is intact. A power cut may keep an end and lose what came before it. */
import { closeSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { type LogRecord, parseRecord, RECORD_BYTES } from './event-log.ts'

const CHECKED_MAX = 4_096 // records: nearly every exec has fewer, and a restart checks every exec

/** Whether the index has this many events. Checks the first ones one by one, and the last. */
export function hasEvents(folder: string, count: number): boolean {
  if (count <= 0) return true
  try {
    const fd = openSync(join(folder, 'index'), 'r')
    try {
      const first = readRecords(fd, 0, Math.min(count, CHECKED_MAX))
      return isUnbroken(first) && readRecords(fd, count - 1, 1)[0] !== undefined
    } finally {
      closeSync(fd)
    }
  } catch {
    return false // missing, or not a file
  }
}

// ---- details ----

function readRecords(fd: number, from: number, count: number): readonly (LogRecord | undefined)[] {
  const bytes = Buffer.alloc(count * RECORD_BYTES) // zeros are not records, so missing bytes count as damage
  readSync(fd, bytes, 0, bytes.length, from * RECORD_BYTES)
  return Array.from({ length: count }, (_, i) => parseRecord(bytes.subarray(i * RECORD_BYTES, (i + 1) * RECORD_BYTES)))
}

/** Each record starts where the previous one of its stream ended. */
function isUnbroken(records: readonly (LogRecord | undefined)[]): boolean {
  const covered = { stdout: 0, stderr: 0 }
  return records.every((record) => {
    if (record?.kind !== 'output') return record !== undefined
    if (record.offset !== covered[record.stream]) return false
    covered[record.stream] += record.length
    return true
  })
}
