/**
 * What is known about the folders of version managers and toolchains below a home folder: which of their parts a box may see.
 * Pure. A row is a promise about other people's folders: it names programs and libraries only, and never a folder in which a
 * tool keeps credentials.
 */

/** The parts, relative to HOME, that belong to a path below HOME. Undefined if no row knows it. */
export function tableParts(below: string): readonly string[] | undefined {
  for (const [pattern, parts] of TABLE) {
    const found = pattern.exec(below)
    if (found !== null) return parts === 'itself' ? [found[0].replace(/\/$/, '')] : parts
  }
  return undefined
}

/** Where `.python-version` chooses from. */
export const PYTHON_ROOTS = ['.pyenv', '.local/share/uv/python', '.local/share/mise/installs/python', '.asdf']

/** Too wide to show, by path below HOME; '' is HOME itself. */
export function isTooWide(below: string): boolean {
  return WIDE.has(below)
}

/** Nothing from these folders gets in, whatever leads there. */
export function holdsCredentials(below: string): boolean {
  return /^\.(?:ssh|gnupg|aws|azure|kube|docker|netrc|mozilla|password-store)(?:\/|$)/.test(below)
}

/** A link may not bring a file out of these either, although PATH may name a folder in them. */
export function isOffLimitsForLinks(below: string): boolean {
  return holdsCredentials(below) || /^\.config(?:\/|$)/.test(below)
}

/** Editors' remote halves talk to a service of the host; snaps need setuid. */
export function servesHost(path: string): boolean {
  return /\/\.[\w-]+-server(?:-[\w-]+)?\//.test(`${path}/`) || path === '/snap' || path.startsWith('/snap/')
}

/** Paths in a window in which tools keep credentials. They are covered by something empty. */
export const CREDENTIAL_NAMES = [
  'etc/npmrc',
  'etc/pip.conf',
  'lib/.npmrc',
  'lib/node_modules/npm/npmrc',
  '.npmrc',
  '.netrc',
  '.pypirc',
  '.condarc',
  '.env',
  'pip.conf',
  'auth.json',
  'config.yml',
  'credentials',
  'credentials.json',
  'credentials.toml',
  'token',
]

/** Below such a folder a parent of `bin` is an installation. */
export const PREFIX_SIGNS = ['lib', 'lib64', 'libexec', 'include', 'conda-meta']
export const PROGRAM_FOLDERS = new Set(['bin', 'sbin', 'shims', 'condabin'])

/** Variables that say where a toolchain is. They are passed on if the box can see the folder. */
export const LOCATION_VARIABLES = [
  'RUSTUP_HOME',
  'PYENV_ROOT',
  'RBENV_ROOT',
  'NODENV_ROOT',
  'GOENV_ROOT',
  'ASDF_DIR',
  'ASDF_DATA_DIR',
  'VOLTA_HOME',
  'SDKMAN_DIR',
  'JAVA_HOME',
  'GOROOT',
  'DOTNET_ROOT',
  'VIRTUAL_ENV',
  'CONDA_PREFIX',
]

/** The same where HOME is a private folder and nothing is mounted: without them the tools would look below that HOME. */
export const LOCATION_DEFAULTS: readonly (readonly [variable: string, below: string])[] = [
  ['RUSTUP_HOME', '.rustup'],
  ['PYENV_ROOT', '.pyenv'],
  ['RBENV_ROOT', '.rbenv'],
  ['NODENV_ROOT', '.nodenv'],
  ['GOENV_ROOT', '.goenv'],
  ['ASDF_DATA_DIR', '.asdf'],
  ['VOLTA_HOME', '.volta'],
  ['SDKMAN_DIR', '.sdkman'],
  ['MISE_DATA_DIR', '.local/share/mise'],
]

// ---- details ----

const RUST = ['.cargo/bin', '.rustup/toolchains', '.rustup/settings.toml', '.rustup/update-hashes'] // .cargo has credentials.toml
const DOTNET = ['dotnet', 'host', 'sdk', 'shared', 'packs', 'templates', 'sdk-manifests', 'library-packs', 'tools'] // not corefx: it has private keys
const row = (...names: readonly string[]): readonly (readonly [RegExp, readonly string[]])[] =>
  names.map((name) => [new RegExp(`^${name.replaceAll('.', '[.]')}(?:/|$)`), [name]])

const TABLE: readonly (readonly [RegExp, readonly string[] | 'itself'])[] = [
  [/^\.cargo\/bin(?:\/|$)/, RUST],
  [/^\.rustup\/toolchains(?:\/|$)/, RUST.slice(1)],
  [/^\.nvm\/versions\/[^/]+\/[^/]+(?:\/|$)/, 'itself'],
  [/^\.local\/share\/mise(?:\/|$)/, ['installs', 'shims', 'plugins'].map((name) => `.local/share/mise/${name}`)],
  [/^\.local\/share\/uv(?:\/|$)/, ['.local/share/uv/python', '.local/share/uv/tools']], // next to them: credentials
  ...row('.local/share/fnm', '.local/share/pipx', '.local/share/pnpm', '.volta', '.asdf', '.pyenv', '.rbenv'),
  ...row('.nodenv', '.goenv', '.jenv', '.ghcup', '.deno/bin', 'go/bin'),
  [/^\.sdkman(?:\/|$)/, ['.sdkman/candidates']],
  [/^\.bun(?:\/|$)/, ['.bun/bin', '.bun/install/global']],
  [/^\.dotnet(?:\/|$)/, DOTNET.map((name) => `.dotnet/${name}`)],
  [/^\.juliaup(?:\/|$)/, ['.juliaup', '.julia/juliaup']],
  [/^sdk\/go[^/]*(?:\/|$)/, 'itself'],
]

const WIDE: ReadonlySet<string> = new Set([
  '',
  '.local',
  '.local/share',
  '.local/state',
  '.local/lib',
  '.config',
  '.cache',
  '.cargo',
  '.rustup',
  'snap',
])
