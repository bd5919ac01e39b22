/** The lines of a file that another process is still writing. */
import { existsSync, readFileSync } from 'node:fs'

/**
 * Every line that has been written to its end, and none if the file is missing. A shell creates a file before it writes
 * to it, so the file's existence does not show that a line is there.
 */
export const wholeLines = (file: string): string[] =>
  existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : []
