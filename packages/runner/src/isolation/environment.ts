/** A command's environment: an allow-list plus what its box and exec set. Nothing else of the runner's environment leaks in. */
import { delimiter } from 'node:path'
import type { HostLayout } from './host.ts'

export type EnvironmentPlan = {
  readonly layout: HostLayout
  readonly host: Readonly<Record<string, string | undefined>>
  readonly isHost: boolean
  readonly home: string
  readonly tmp: string
  readonly cwd: string
  readonly user: string
  readonly box: Readonly<Record<string, string>>
  readonly exec: Readonly<Record<string, string>>
}

export function commandEnvironment(plan: EnvironmentPlan): Record<string, string> {
  const passed: Record<string, string> = {}
  for (const name of PASSED) {
    const value = plan.host[name]
    if (value !== undefined) passed[name] = value
  }
  return {
    LANG: 'C.UTF-8',
    ...passed,
    PATH: searchPath(plan),
    HOME: plan.home,
    TMPDIR: plan.tmp,
    USER: plan.user,
    LOGNAME: plan.user,
    SHELL: '/bin/sh',
    TERM: 'dumb', // there is no terminal, and programs should know
    PWD: plan.cwd,
    ...plan.box,
    ...plan.exec,
  }
}

// ---- details ----

const PASSED = ['LANG', 'LC_ALL', 'LC_CTYPE', 'TZ']

const SYSTEM_PATH = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** In a sandbox: the PATH entries that the box can see, then the usual ones. Without a sandbox: the runner's PATH. */
function searchPath(plan: EnvironmentPlan): string {
  const own = (plan.host['PATH'] ?? '').split(delimiter).filter((entry) => entry.startsWith('/'))
  if (plan.isHost) return [...new Set([...own, ...SYSTEM_PATH])].join(delimiter)
  const seen = own.filter(
    (entry) =>
      plan.layout.homePath.includes(entry) || plan.layout.folders.some((folder) => entry.startsWith(`${folder}/`)),
  )
  return [...new Set([...seen, ...SYSTEM_PATH])].join(delimiter)
}
