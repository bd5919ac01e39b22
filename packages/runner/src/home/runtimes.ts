/** Which runtimes and tools the PATH of a box has, as short names for a model: `node 22.1.0 (nvm)`. In a fixed order. */
import { accessSync, constants, readFileSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { SYSTEM_PATH } from '../isolation/environment.ts'
import type { Toolchains } from './toolchains.ts'

/** Programs that `doctor` runs and the box's description names, with the arguments that make them print their version. */
export const RUNTIME_PROGRAMS: readonly (readonly [name: string, ...args: string[]])[] = [
  ['node', '--version'],
  ['npm', '--version'],
  ['pnpm', '--version'],
  ['yarn', '--version'],
  ['bun', '--version'],
  ['deno', '--version'],
  ['python3', '--version'],
  ['pip3', '--version'],
  ['uv', '--version'],
  ['conda', '--version'],
  ['ruby', '--version'],
  ['go', 'version'],
  ['rustc', '--version'],
  ['cargo', '--version'],
  ['java', '-version'],
  ['mvn', '--version'],
  ['gradle', '--version'],
  ['dotnet', '--version'],
  ['php', '--version'],
  ['julia', '--version'],
  ['ghc', '--version'],
  ['nix', '--version'],
  ['gcc', '--version'],
  ['make', '--version'],
  ['git', '--version'],
]

export function runtimesIn({ entries }: Toolchains, home: string): readonly string[] {
  const folders = [...entries.filter(({ because }) => because === undefined).map(({ path }) => path), ...SYSTEM_PATH]
  return RUNTIME_PROGRAMS.flatMap(([name]) => {
    const file = folders.map((folder) => join(folder, name)).find(isExecutable)
    return file === undefined ? [] : [`${name}${labelOf(name, file, home)}`]
  })
}

// ---- details ----

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false // not in this folder
  }
}

/** The manager and, if the path or a small file says so, the version. No program is run. */
function labelOf(name: string, file: string, home: string): string {
  const real = realpathSync(file)
  for (const [pattern, manager] of MANAGERS) {
    const found = pattern.exec(real) ?? pattern.exec(file)
    if (found === null) continue
    const version = found[1] ?? versionFile(home, manager, name)
    return `${version === undefined ? '' : ` ${version}`} (${manager})`
  }
  return ''
}

const MANAGERS: readonly (readonly [RegExp, string])[] = [
  [/\/\.nvm\/versions\/node\/v([\d.]+)\//, 'nvm'],
  [/\/fnm\/node-versions\/v([\d.]+)\//, 'fnm'],
  [/\/mise\/installs\/[^/]+\/([\d.]+)\//, 'mise'],
  [/\/mise\/shims\//, 'mise'],
  [/\/\.asdf\//, 'asdf'],
  [/\/\.volta\//, 'volta'],
  [/\/\.pyenv\//, 'pyenv'],
  [/\/\.rbenv\//, 'rbenv'],
  [/\/\.sdkman\/candidates\/[^/]+\/(\d[^/]*)\//, 'sdkman'],
  [/\/\.cargo\/bin\//, 'rustup'],
  [/\/sdk\/go([\d.]+)\//, 'go sdk'],
  [/\/nix\/store\//, 'nix'],
]

function versionFile(home: string, manager: string, name: string): string | undefined {
  try {
    if (manager === 'pyenv') return /^(\d[\w.]*)$/m.exec(readFileSync(join(home, '.pyenv/version'), 'utf8'))?.[1]
    if (manager !== 'rustup' || !name.startsWith('rustc')) return undefined
    const text = readFileSync(join(home, '.rustup/settings.toml'), 'utf8')
    return /^default_toolchain = "([\w.-]+?)(?:-x86_64[\w-]*|-aarch64[\w-]*)?"/m.exec(text)?.[1]
  } catch {
    return undefined // none is set
  }
}
