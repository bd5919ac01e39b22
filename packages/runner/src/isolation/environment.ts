/** A command's environment: an allow-list plus what its box and exec set. Nothing else of the runner's environment leaks in. */
import { delimiter } from 'node:path'

export type EnvironmentPlan = {
  /** PATH entries that the box can see. */
  readonly path: readonly string[]
  readonly host: Readonly<Record<string, string | undefined>>
  readonly home: string
  readonly tmp: string
  readonly cwd: string
  readonly user: string
  /** Where toolchains are. */
  readonly locations: Readonly<Record<string, string>>
  readonly box: Readonly<Record<string, string>>
  readonly exec: Readonly<Record<string, string>>
  /** Whether the command has a network, and can read this file of the machine. */
  readonly needsCertificate: (file: string) => boolean
}

export function commandEnvironment(plan: EnvironmentPlan): Record<string, string> {
  const passed: Record<string, string> = {}
  for (const name of PASSED) {
    const value = plan.host[name]
    if (value !== undefined) passed[name] = value
  }
  for (const name of CERTIFICATES) {
    const value = plan.host[name]
    if (value !== undefined && plan.needsCertificate(value)) passed[name] = value
  }
  return {
    LANG: 'C.UTF-8',
    ...passed,
    ...plan.locations,
    PATH: [...new Set([...plan.path, ...SYSTEM_PATH])].join(delimiter),
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

/** Variables that name a company's own certificates: behind a proxy that intercepts TLS, downloads fail without them. */
const CERTIFICATES = [
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'REQUESTS_CA_BUNDLE',
  'CURL_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  'PIP_CERT',
  'CARGO_HTTP_CAINFO',
]

export const SYSTEM_PATH = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
