/** Scratch folders of rehearsals and demos. */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'

const STALE_MS = 24 * 60 * 60_000 // nothing here takes that long

export function makeScratch(name: 'rehearsal' | 'demo'): string {
  try {
    sweepScratch(`breakfall-${name}-`)
    return mkdtempSync(join(tmpdir(), `breakfall-${name}-`))
  } catch (cause) {
    throw new Fault('invalid_request', {
      error: `Cannot create a scratch folder in ${tmpdir()}; set TMPDIR to a folder that you can write to`,
      cause,
    })
  }
}

// ---- details ----

/** Removes what our killed ones left behind. Another user could swap folders of theirs for links while we remove them. */
function sweepScratch(prefix: string): void {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(prefix))) {
    const folder = join(tmpdir(), name)
    const stat = lstatSync(folder, { throwIfNoEntry: false })
    const isOurs = stat !== undefined && stat.uid === (process.getuid?.() ?? stat.uid)
    try {
      if (isOurs && Date.now() - stat.mtimeMs > STALE_MS) rmSync(folder, { recursive: true, force: true })
    } catch {
      // still in use: leaving it does no harm
    }
  }
}
