/** Which files a command line names, and whether they have changed: a repaired model file is worth another start. */
import { type BigIntStats, statSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'

/** Changes when the command changes, or when a file or folder that it names appears, disappears, is written or gets other permissions. */
export function commandFingerprint(command: readonly string[], env: NodeJS.ProcessEnv = process.env): string {
  const [program = '', ...args] = command
  const files = [...programFiles(program, env['PATH'] ?? ''), ...args.flatMap(namedFiles)]
  return JSON.stringify([command, files.map(stateOf)])
}

// ---- details ----

/** Where the program is looked for. */
function programFiles(program: string, path: string): readonly string[] {
  if (isAbsolute(program) || program.includes('/')) return [resolve(program)]
  return path
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, program))
}

/** Any argument may be a file, and so may the value of `--model=FILE`. Those that are not have no state. */
function namedFiles(argument: string): readonly string[] {
  const value = /^-[^=]*=(.+)$/s.exec(argument)?.[1] ?? argument
  return value.startsWith('-') || value === '' || value.includes('\0') ? [] : [resolve(value)]
}

function stateOf(file: string): string | null {
  const stats = statsOf(file)
  return stats === undefined ? null : `${stats.ino} ${stats.size} ${stats.mtimeNs} ${stats.mode}`
}

function statsOf(file: string): BigIntStats | undefined {
  try {
    return statSync(file, { bigint: true })
  } catch {
    return undefined // not there, or no file name at all
  }
}
