/** Which folders and files of this machine a box may see; read once at the start. */
import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { delimiter, join, sep } from 'node:path'

export type HostLayout = {
  /** Folders that are visible read-only at their own path. */
  readonly folders: readonly string[]
  /** `/bin` and similar folders if they are links, as with a merged /usr. */
  readonly links: ReadonlyMap<string, string>
  /** Files and folders of /etc that programs need and that contain no secrets. */
  readonly etc: readonly string[]
  /** Files of /proc that boxes see empty. */
  readonly masked: readonly string[]
  /** PATH entries in the home folder: version managers put programs there. */
  readonly homePath: readonly string[]
}

export function readHostLayout(environment: Readonly<Record<string, string | undefined>>, home: string): HostLayout {
  const folders = ['/usr', '/opt'].filter((path) => existsSync(path))
  const links = new Map<string, string>()
  for (const path of ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']) {
    const stat = lstatSync(path, { throwIfNoEntry: false })
    if (stat?.isSymbolicLink() === true) links.set(path, readlinkSync(path))
    else if (stat?.isDirectory() === true) folders.push(path)
  }
  return {
    folders,
    links,
    etc: [...ETC, ...javaFolders()].map((name) => `/etc/${name}`).filter((path) => existsSync(path)),
    masked: ['/proc/keys', '/proc/key-users'].filter((path) => existsSync(path)),
    homePath: homePathEntries(environment['PATH'] ?? '', home),
  }
}

// ---- details ----

const ETC = [
  'alternatives',
  'ca-certificates',
  'ca-certificates.conf',
  'crypto-policies',
  'host.conf',
  'hosts',
  'java',
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'locale.alias',
  'localtime',
  'magic',
  'maven/logging',
  'maven/m2.conf',
  'mime.types',
  'nsswitch.conf',
  'perl',
  'pki/tls/certs',
  'pki/ca-trust',
  'protocols',
  'python3',
  'resolv.conf',
  'rpc',
  'services',
  'ssl/certs',
  'ssl/openssl.cnf',
  'terminfo',
  'timezone',
]

/** Debian keeps the settings of each Java there, without which it has no cryptography. */
const javaFolders = (): readonly string[] => readdirSync('/etc').filter((name) => /^java-\d+-openjdk$/.test(name))

function homePathEntries(path: string, home: string): readonly string[] {
  if (home === '' || home === '/') return []
  return [...new Set(path.split(delimiter))].filter((entry) => {
    if (!entry.startsWith(home + sep)) return false
    try {
      const real = realpathSync(entry)
      return statSync(real).isDirectory() && real.startsWith(join(home, sep)) && real !== home
    } catch {
      return false // PATH entries often do not exist
    }
  })
}
