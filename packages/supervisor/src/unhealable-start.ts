/**
 * Start failures that no restart can heal: the command names a file that is not there, or an option that the program rejects.
 *
 * I1  Both must agree: the program says so in a line that contains the argument, and for a file, the disk confirms it.
 */
import { accessSync, constants } from 'node:fs'
import { resolve } from 'node:path'
import { REJECTED_OPTION, UNREADABLE_FILE } from './explaining-line.ts'
import { withoutColours } from './log-prefix.ts'
import type { JudgedReport } from './report.ts'

export function isUnhealableStart(
  report: Pick<JudgedReport, 'phase' | 'endedBy' | 'stderrTail'>,
  args: readonly string[],
  cwd: string,
): boolean {
  if (report.phase !== 'starting' || report.endedBy !== null) return false
  const lines = report.stderrTail.map(withoutColours)
  return args.some((arg) => {
    const says = (kind: RegExp, word: string): boolean => lines.some((line) => kind.test(line) && line.includes(word))
    if (arg.startsWith('-') && says(REJECTED_OPTION, arg)) return true
    const file = valueOf(arg)
    return file !== undefined && says(UNREADABLE_FILE, file) && !isReadable(resolve(cwd, file)) // I1
  })
}

// ---- details ----

const VALUE_CHARS_MIN = 3 // a shorter word is in many lines by chance

/** `FILE` and `--model=FILE` both name a file. */
function valueOf(arg: string): string | undefined {
  const value = /^-[^=]*=(.+)$/s.exec(arg)?.[1] ?? arg
  return value.startsWith('-') || value.length < VALUE_CHARS_MIN || value.includes('\0') ? undefined : value
}

function isReadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK)
    return true
  } catch {
    return false
  }
}
