/** The documentation page of a category: its path in the checkout or in the installed package, else its name. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export function faultPage(category: string): string {
  const name = `docs/faults/${category}.md`
  return FOLDERS.map((folder) => fileURLToPath(new URL(name, folder))).find((path) => existsSync(path)) ?? name
}

// ---- details ----

/** The checkout, and the published package. */
const FOLDERS = [new URL('../../../../', import.meta.url), new URL('../../', import.meta.url)]
