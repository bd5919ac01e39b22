import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { tempFolder } from '../../../test/kit/folder.ts'
import { toolVersions } from '../src/home/home-files.ts'
import { tableParts } from '../src/home/tool-table.ts'
import { findToolchains } from '../src/home/toolchains.ts'
import { bwrapOptions } from '../src/isolation/bwrap-args.ts'
import { readHostLayout } from '../src/isolation/host-layout.ts'
import { withoutBwrap } from './kit.ts'

function program(path: string, script: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
}

test(
  'a Nix profile opens the store and the profiles, and its programs run in a sandbox',
  { skip: withoutBwrap },
  (t) => {
    const folder = tempFolder(t)
    const [home, store] = [join(folder, 'home'), join(folder, 'nix/store')]
    program(join(store, 'abc-hello-2/bin/hello'), `cat ${store}/def-data/text`)
    mkdirSync(join(store, 'def-data'))
    writeFileSync(join(store, 'def-data/text'), 'hello of nix')
    mkdirSync(join(store, 'ghi-env/bin'), { recursive: true })
    symlinkSync(join(store, 'abc-hello-2/bin/hello'), join(store, 'ghi-env/bin/hello'))
    const profiles = join(folder, 'nix/var/nix/profiles')
    mkdirSync(profiles, { recursive: true })
    symlinkSync(join(store, 'ghi-env'), join(profiles, 'default'))
    mkdirSync(home)
    symlinkSync(join(profiles, 'default'), join(home, '.nix-profile'))
    const found = findToolchains({
      path: `${home}/.nix-profile/bin`,
      home,
      system: ['/usr'],
      stores: [{ root: store, also: [profiles] }],
    })
    assert.deepEqual(found, { windows: [store, profiles], entries: [{ path: join(store, 'ghi-env/bin') }] })
    const layout = readHostLayout({}, home)
    const mounts = [...layout.folders, ...found.windows].map((path) => ({ at: path, host: path, mode: 'ro' as const }))
    const options = bwrapOptions({
      view: { mounts, links: layout.links, masks: [], isHost: false },
      user: { kind: 'userns', uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0, disableUserns: false },
      network: 'none',
      cwd: '/',
      environment: { PATH: `${found.entries[0]?.path}:/usr/bin:/bin` },
    })
    assert.equal(execFileSync('bwrap', [...options, '--', 'hello'], { encoding: 'utf8' }), 'hello of nix')
  },
)

test('what PATH names outside the system and the home folder, or too widely, is left out with the reason', (t) => {
  const folder = tempFolder(t)
  const home = join(folder, 'home')
  for (const name of ['.local', '.ssh/bin', '.vscode-server/bin/abc/bin', 'tools', 'opt/bin'])
    mkdirSync(join(home, name), { recursive: true })
  mkdirSync(join(folder, 'elsewhere'))
  const names = ['', '.local', '.ssh/bin', '.vscode-server/bin/abc/bin', '../elsewhere', 'tools', 'opt/bin']
  const path = [...names.map((name) => join(home, name)), '/usr/bin', 'relative', '/nowhere'].join(':')
  const { windows, entries } = findToolchains({ path, home, system: ['/usr'], stores: [] })
  assert.deepEqual(windows, [join(home, 'opt/bin'), join(home, 'tools')])
  assert.deepEqual(
    entries.filter(({ because }) => because !== undefined).map(({ because }) => because),
    [
      'it would show too much of the home folder',
      'it would show too much of the home folder',
      'it is in a folder with credentials',
      'it belongs to a service of the host',
      'it is outside the system folders and the home folder',
    ],
  )
})

test('no row of the table shows a folder in which its tool keeps credentials', () => {
  const credentials = [
    '.cargo/credentials.toml',
    '.local/share/uv/credentials',
    '.dotnet/corefx/cryptography',
    '.bun',
    '.sdkman',
    '.rustup',
  ]
  const entries = [
    '.cargo/bin',
    '.local/share/uv/tools/x/bin',
    '.dotnet/tools',
    '.bun/bin',
    '.sdkman/candidates/java/current/bin',
    '.rustup/toolchains/x/bin',
  ]
  const shown = entries.flatMap((entry) => tableParts(entry) ?? assert.fail(entry))
  for (const path of credentials)
    assert.ok(!shown.some((part) => path === part || path.startsWith(`${part}/`)), `${path} is not shown`)
  assert.equal(tableParts('.ssh/bin'), undefined)
})

test('the versions that asdf and mise chose are taken over, and nothing else of their files', () => {
  const own = 'nodejs 22.1.0\nruby 3.3.0 3.2.0\n# comment\npath /etc/passwd\n'
  const mise =
    '[env]\nTOKEN = "x"\n\n[tools]\nnodejs = "20"\n"python" = "3.12"\ngo = { version = "1" }\n\n[settings]\nfoo = "bar"\n'
  assert.equal(toolVersions(own, mise), 'nodejs 22.1.0\nruby 3.3.0 3.2.0\npython 3.12\n')
})
