/** The runner of this machine, as its file in the state folder tells. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDead, readProcess } from '@breakfall/supervisor/platform'

export type LocalRunner = { readonly url: string; readonly pid: number; readonly startTime: number }

/** Undefined if none is running. */
export function localRunner(stateDir: string): LocalRunner | undefined {
  const runner = runnerIn(stateDir)
  return runner !== undefined && isRunnerAlive(runner) ? runner : undefined
}

/** A pid alone does not identify a process. */
export function isRunnerAlive({ pid, startTime }: LocalRunner): boolean {
  const found = readProcess(pid)
  return found !== undefined && !isDead(found) && found.startTime === startTime
}

// ---- details ----

function runnerIn(stateDir: string): LocalRunner | undefined {
  try {
    const found: Partial<LocalRunner> = JSON.parse(readFileSync(join(stateDir, 'runner', 'runner.json'), 'utf8'))
    const { url, pid, startTime } = found
    if (typeof url !== 'string' || typeof pid !== 'number' || typeof startTime !== 'number') return undefined
    return { url, pid, startTime }
  } catch {
    return undefined // no runner, or a damaged file: nothing that we could end safely
  }
}
