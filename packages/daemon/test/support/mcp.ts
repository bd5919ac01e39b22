/** Servers of tools for tests: the one that misbehaves on request, with its diary, and the reference servers. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PROGRAM = fileURLToPath(new URL('../programs/mcp-server.mjs', import.meta.url))

export type Diary = {
  readonly config: { readonly command: string; readonly args: readonly string[] }
  readonly lines: () => readonly string[]
  /** How often a tool really ran. */
  readonly ran: (tool: string) => number
  readonly pid: () => number
  /** Its next call of `act` or `look` ends the process. */
  readonly dieInNextCall: () => void
  /** Lets `late` and `gated` calls continue. */
  readonly open: () => void
}

export function badServer(folder: string, ...behaviours: readonly string[]): Diary {
  const file = join(folder, 'diary')
  const lines = (): readonly string[] =>
    existsSync(file)
      ? readFileSync(file, 'utf8')
          .split('\n')
          .filter((line) => line !== '')
      : []
  return {
    config: { command: process.execPath, args: [PROGRAM, file, ...behaviours] },
    lines,
    ran: (tool) => lines().filter((line) => line.split(' ')[0] === tool).length,
    pid: () =>
      Number(
        lines()
          .findLast((line) => line.startsWith('start'))
          ?.split(' ')[1],
      ),
    dieInNextCall: () => writeFileSync(`${file}.die`, ''),
    open: () => writeFileSync(`${file}.go`, ''),
  }
}

/** A server from npm, as people run it. */
export const reference = (name: 'everything' | 'filesystem' | 'memory', ...args: readonly string[]) => ({
  command: process.execPath,
  args: [
    fileURLToPath(
      new URL(`../../../../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`, import.meta.url),
    ),
    ...args,
  ],
})

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
