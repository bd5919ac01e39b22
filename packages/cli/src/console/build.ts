/** Builds the console if its sources changed since the last build. A failure costs the page, never the daemon. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { messageOf } from '@breakfall/faults/internal'
import type { DaemonOptions } from '@breakfall/daemon'

/** Loaded only by commands that show the console: `breakfall run` never pays for it. */
export async function builtConsole(
  load: () => Promise<ConsoleBuild> = loadBuild,
): Promise<NonNullable<DaemonOptions['console']>> {
  if (existsSync(join(PACKED, 'index.html'))) return { folder: PACKED }
  try {
    const { buildConsole } = await load()
    return { folder: await buildConsole() }
  } catch (error) {
    const why = messageOf(error)
    return { reason: `The console could not be built: ${why}` }
  }
}

// ---- details ----

/** The published package brings the page along. */
const PACKED = fileURLToPath(new URL('../../console', import.meta.url))

/** What the console's `build.mjs` exports. The folder has `index.html` and `assets/`. */
type ConsoleBuild = { readonly buildConsole: () => Promise<string> }

/** By a name that the compiler does not follow: the module is plain JavaScript, and may be missing. */
const MODULE: string = '@breakfall/console/build'

const loadBuild = async (): Promise<ConsoleBuild> => import(MODULE)
