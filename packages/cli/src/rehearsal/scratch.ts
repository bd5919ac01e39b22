/** Scratch folders of rehearsals, demos and local fleets. */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'

const STALE_MS = 24 * 60 * 60_000 // nothing here takes that long

export function makeScratch(name: 'rehearsal' | 'demo' | 'fleet'): string {
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

/** Removes what killed ones left behind. */
function sweepScratch(prefix: string): void {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(prefix))) {
    const folder = join(tmpdir(), name)
    const age = Date.now() - (statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
    try {
      if (age > STALE_MS) rmSync(folder, { recursive: true, force: true })
    } catch {
      // another user's, or still in use: leaving it does no harm
    }
  }
}
