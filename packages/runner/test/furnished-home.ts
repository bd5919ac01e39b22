/** A home folder with toolchains, laid out as the real managers do, with small programs that print a version. */
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { tempFolder } from '../../../test/kit/folder.ts'
import { inProcess, type TestRunner } from './kit.ts'

export class Home {
  readonly path: string
  readonly work: string
  readonly entries: string[] = []

  constructor(t: TestContext) {
    const folder = tempFolder(t)
    this.path = join(folder, 'home', 'ann')
    this.work = join(this.path, 'work', 'project')
    mkdirSync(this.work, { recursive: true })
  }

  file(name: string, text: string, mode = 0o644): string {
    const path = join(this.path, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
    chmodSync(path, mode)
    return path
  }

  program(name: string, script: string): string {
    return this.file(name, `#!/bin/sh\n${script}\n`, 0o755)
  }

  link(name: string, target: string): void {
    mkdirSync(dirname(join(this.path, name)), { recursive: true })
    symlinkSync(target, join(this.path, name))
  }

  onPath(...names: readonly string[]): void {
    this.entries.push(...names.map((name) => (name.startsWith('/') ? name : join(this.path, name))))
  }

  get environment(): Record<string, string> {
    return { HOME: this.path, PATH: [...this.entries, '/usr/bin', '/bin'].join(':') }
  }

  runner(t: TestContext, more: object = {}): Promise<TestRunner> {
    return inProcess(t, { environment: this.environment, allowWorkspace: [join(this.path, 'work')], ...more })
  }
}

/** Every manager of the table, each with one program that needs the rest of its installation. */
export function furnish(home: Home): readonly (readonly [command: string, prints: string])[] {
  const { path } = home
  // nvm: npm is a link into lib
  home.program('.nvm/versions/node/v22.1.0/bin/nvm-node', 'cat "$(dirname "$0")/../lib/version"')
  home.file('.nvm/versions/node/v22.1.0/lib/version', 'nvm 22.1.0')
  home.program('.nvm/versions/node/v22.1.0/lib/node_modules/npm/bin/npm-cli', 'echo nvm-npm')
  home.link('.nvm/versions/node/v22.1.0/bin/nvm-npm', '../lib/node_modules/npm/bin/npm-cli')
  home.onPath('.nvm/versions/node/v22.1.0/bin')
  // fnm: the PATH has a link of this shell, outside HOME
  home.program('.local/share/fnm/node-versions/v20.2.0/installation/bin/fnm-node', 'echo fnm 20.2.0')
  const shell = join(dirname(dirname(path)), 'run', 'fnm_multishells', '1_2')
  mkdirSync(dirname(shell), { recursive: true })
  symlinkSync(join(path, '.local/share/fnm/node-versions/v20.2.0/installation'), shell)
  home.onPath(`${shell}/bin`)
  // volta: shims are links to one program that reads the platform file
  home.program('.volta/bin/volta-shim', 'cat "$HOME/.volta/tools/user/platform.json"')
  home.link('.volta/bin/volta-node', 'volta-shim')
  home.file('.volta/tools/user/platform.json', 'volta 18')
  home.onPath('.volta/bin')
  // mise: shims are links to mise itself, which reads ~/.tool-versions
  home.program(
    '.local/bin/mise',
    'v=$(sed -n "s/^$(basename "$0") //p" ~/.tool-versions); exec ~/.local/share/mise/installs/mise-tool/$v/bin/mise-tool',
  )
  home.program('.local/share/mise/installs/mise-tool/3.3/bin/mise-tool', 'echo mise 3.3')
  home.link('.local/share/mise/shims/mise-tool', join(path, '.local/bin/mise'))
  home.file('.config/mise/config.toml', '[tools]\nmise-tool = "3.3"\n\n[env]\nTOKEN = "no"\n')
  home.onPath('.local/share/mise/shims')
  // pyenv: shims call libexec
  home.program('.pyenv/libexec/pyenv', 'exec "$HOME/.pyenv/versions/3.11.4/bin/$2"')
  home.program('.pyenv/versions/3.11.4/bin/pyenv-python', 'echo pyenv 3.11.4')
  home.program('.pyenv/shims/pyenv-python', `exec ${path}/.pyenv/libexec/pyenv exec "$(basename "$0")"`)
  home.onPath('.pyenv/shims')
  // uv: a program in ~/.local/bin, tools as links
  home.program('.local/bin/uv', 'echo uv 0.9')
  home.program('.local/share/uv/tools/ruff/bin/uv-ruff', 'cat "$(dirname "$(realpath "$0")")/../version"')
  home.file('.local/share/uv/tools/ruff/version', 'ruff 0.14')
  home.link('.local/bin/uv-ruff', join(path, '.local/share/uv/tools/ruff/bin/uv-ruff'))
  home.onPath('.local/bin')
  // rustup: proxies read settings.toml
  home.program('.cargo/bin/rust-proxy', 'exec ~/.rustup/toolchains/"$(cat ~/.rustup/settings.toml)"/bin/rustc')
  home.file('.rustup/settings.toml', 'stable')
  home.program('.rustup/toolchains/stable/bin/rustc', 'echo rustc 1.95')
  home.onPath('.cargo/bin')
  // go: an sdk and GOPATH/bin
  home.program('sdk/go1.25.1/bin/go-tool', 'cat "$(dirname "$0")/../VERSION"')
  home.file('sdk/go1.25.1/VERSION', 'go1.25.1')
  home.program('go/bin/go-linter', 'echo go-linter 2')
  home.onPath('sdk/go1.25.1/bin', 'go/bin')
  // sdkman: current is a link
  home.program('.sdkman/candidates/java/21.0.2-tem/bin/sdk-java', 'cat "$(dirname "$0")/../release"')
  home.file('.sdkman/candidates/java/21.0.2-tem/release', 'java 21.0.2')
  home.link('.sdkman/candidates/java/current', '21.0.2-tem')
  home.onPath('.sdkman/candidates/java/current/bin')
  // bun, deno: one program each
  home.program('.bun/bin/bun-tool', 'echo bun 1.3')
  home.program('.deno/bin/deno-tool', 'echo deno 2.5')
  home.onPath('.bun/bin', '.deno/bin')
  // a prefix that no row knows: conda
  home.program('miniconda3/bin/conda-python', 'cat "$(dirname "$0")/../lib/version"')
  home.file('miniconda3/lib/version', 'conda 3.13')
  home.onPath('miniconda3/bin')
  // a single folder of programs next to a token
  home.program('.fly/bin/flyctl', 'echo flyctl')
  home.onPath('.fly/bin')
  return [
    ['nvm-node', 'nvm 22.1.0'],
    ['nvm-npm', 'nvm-npm'],
    ['fnm-node', 'fnm 20.2.0'],
    ['volta-node', 'volta 18'],
    ['mise-tool', 'mise 3.3'],
    ['pyenv-python', 'pyenv 3.11.4'],
    ['uv', 'uv 0.9'],
    ['uv-ruff', 'ruff 0.14'],
    ['rust-proxy', 'rustc 1.95'],
    ['go-tool', 'go1.25.1'],
    ['go-linter', 'go-linter 2'],
    ['sdk-java', 'java 21.0.2'],
    ['bun-tool', 'bun 1.3'],
    ['deno-tool', 'deno 2.5'],
    ['conda-python', 'conda 3.13'],
    ['flyctl', 'flyctl'],
  ]
}
