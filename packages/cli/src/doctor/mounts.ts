/** The doctor's check of `[box] mounts`: a folder that is missing makes every run fail. */
import { statSync } from 'node:fs'
import type { BoxSetting } from '../config/box.ts'
import type { Finding } from './finding.ts'

export function checkMounts({ mounts }: BoxSetting): readonly Finding[] {
  return mounts.filter(isMissing).map(({ path }) => ({
    check: 'mounts',
    verdict: 'bad',
    found: `${path} is in [box] mounts, but there is no such folder`,
    fix: 'create it, or remove it from your config.toml',
  }))
}

export const isMissing = ({ path }: { readonly path: string }): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true
