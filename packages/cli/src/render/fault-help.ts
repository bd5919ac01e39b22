/** The documentation page of a category: its path in the checkout or in the installed package, else its name. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { FaultReport } from '@breakfall/faults'
import { cmd } from '../process/command-name.ts'

export function faultPage(category: string): string {
  const name = `docs/faults/${category}.md`
  return FOLDERS.map((folder) => fileURLToPath(new URL(name, folder))).find((path) => existsSync(path)) ?? name
}

// ---- details ----

/** The checkout, and the published package. */
const FOLDERS = [new URL('../../../../', import.meta.url), new URL('../../', import.meta.url)]

/** Not if level "process" itself is what the runner refused, or what cannot do what was asked. */
export const isForLackOfSandbox = ({ category, errorRaw }: Pick<FaultReport, 'category' | 'errorRaw'>): boolean =>
  category === 'isolation_unavailable' && !/--allow-isolation process|enforced: level "process"/.test(errorRaw)

export const WITHOUT_SANDBOX = `to run without a sandbox, at your own risk: ${cmd('run')} --isolation process`
