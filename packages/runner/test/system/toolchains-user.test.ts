/** Toolchains in the boxes of a runner that has no root, and those outside the home folder: Nix and Homebrew at their real paths. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { furnish, Home } from '../furnished-home.ts'
import { asProgram, type TestRunner, withoutBwrap, withoutRoot } from '../kit.ts'

const USER = 65_534

describe('toolchains of a plain user', { skip: withoutRoot || withoutBwrap }, () => {
  test('toolchains of sixteen managers work in the boxes of a runner without root', async (t) => {
    const home = new Home(t)
    const tools = furnish(home)
    const runner = await runnerOf(t, home, USER)
    const { stdout, stderr } = await runner.run('b1', tools.map(([command]) => `${command}; echo`).join('; '))
    assert.deepEqual(
      stdout.split('\n').filter(Boolean),
      tools.map(([, prints]) => prints),
      stderr,
    )
    assert.equal((await runner.run('b1', 'id -u; touch ~/mine && echo wrote')).stdout, `${USER}\nwrote\n`)
  })

  for (const [who, uid] of [
    ['root', 0],
    ['a plain user', USER],
  ] as const)
    test(`Nix and Homebrew work at their real paths for ${who}, and Nix's socket stays out`, async (t) => {
      const home = new Home(t)
      const { path } = home
      // Nix: a profile is a chain of links into the store; programs name their dependencies in the store
      home.program('nix/store/aaa-hello-2.12/bin/nix-hello', 'cat /nix/store/bbb-data/text')
      home.file('nix/store/bbb-data/text', 'hello of nix')
      home.link('nix/var/nix/profiles/default', '/nix/store/ccc-profile')
      home.link('nix/store/ccc-profile/bin/nix-hello', '/nix/store/aaa-hello-2.12/bin/nix-hello')
      home.file('nix/var/nix/daemon-socket/socket', 'no')
      // Homebrew: programs are links into the Cellar
      home.program('brew/.linuxbrew/Cellar/jq/1.8/bin/brew-jq', 'cat "$(dirname "$(realpath "$0")")/../version"')
      home.file('brew/.linuxbrew/Cellar/jq/1.8/version', 'jq of brew')
      home.link('brew/.linuxbrew/bin/brew-jq', '../Cellar/jq/1.8/bin/brew-jq')
      home.onPath('/nix/var/nix/profiles/default/bin', '/home/linuxbrew/.linuxbrew/bin')
      const elsewhere = [[join(path, 'nix'), '/nix'] as const, [join(path, 'brew'), '/home/linuxbrew'] as const]
      const runner = await runnerOf(t, home, uid, elsewhere)
      const { stdout, stderr } = await runner.run('b1', 'nix-hello; echo; brew-jq; echo; ls /nix/var/nix')
      assert.equal(stdout, 'hello of nix\njq of brew\nprofiles\n', stderr)
      const write = 'touch /nix/store/x || touch /home/linuxbrew/.linuxbrew/x || echo read-only'
      assert.equal((await runner.run('b1', write)).stdout, 'read-only\n')
    })
})

type Bind = readonly [folder: string, at: string]

/** A runner of that user with one box, on a machine that also has the given folders at these paths. */
async function runnerOf(t: TestContext, home: Home, uid: number, binds: readonly Bind[] = []): Promise<TestRunner> {
  const folder = dirname(dirname(home.path))
  chmodSync(folder, 0o755)
  execFileSync('chown', ['-R', `${uid}:${uid}`, folder])
  const root = join(folder, 'root')
  if (binds.length > 0) mkdirSync(root)
  const as = binds.length > 0 ? {} : { uid, gid: uid }
  const through = binds.length > 0 ? machineWith(root, uid, binds) : []
  const flags = ['--allow-workspace', home.work]
  const state = join(folder, 'state')
  mkdirSync(state)
  execFileSync('chown', [`${uid}:${uid}`, state])
  const runner = await asProgram(t, state, flags, as, {}, home.environment, through)
  await runner.box({ id: 'b1', workspace: home.work })
  return runner
}

/** The command that starts a program in a mount namespace with these folders: the real `/nix` and `/home` stay as they are. */
function machineWith(root: string, uid: number, binds: readonly Bind[]): readonly string[] {
  const script = `set -e
    root=$1; shift
    mount -t tmpfs tmpfs "$root"
    for entry in /*; do
      case $entry in /nix | /home) continue ;; esac
      if [ -L "$entry" ]; then cp -P "$entry" "$root$entry"
      elif [ -d "$entry" ]; then mkdir "$root$entry"; mount --rbind "$entry" "$root$entry"; fi
    done
    mkdir -p "$root/home" "$root/old"
    while [ "$1" != -- ]; do mkdir -p "$root$2"; mount --bind "$1" "$root$2"; shift 2; done
    shift
    chmod 755 "$root"
    cd "$root"; /usr/sbin/pivot_root . old; umount -l /old; cd /
    exec "$@"`
  const user = ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups']
  return [
    '/usr/bin/unshare',
    '--mount',
    'sh',
    '-c',
    script,
    'sh',
    root,
    ...binds.flat(),
    '--',
    ...(uid === 0 ? [] : user),
  ]
}
