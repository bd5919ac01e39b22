/** Toolchains of the user's home folder in a real box: laid out as the real managers do, with small programs that print a version. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import { findProgram } from '../../src/isolation/find-program.ts'
import { furnish, Home } from '../furnished-home.ts'
import { inProcess, withoutBwrap } from '../kit.ts'

const CANARY = 'canary-5e1f0a9b8c7d6e5f'

/** Where tools read their settings within an installation. */
const INSTALLED = [
  ...['etc/npmrc', 'lib/.npmrc', 'lib/node_modules/npm/npmrc'].map((name) => `.nvm/versions/node/v22.1.0/${name}`),
  'miniconda3/.condarc',
]

/** Credentials as tools keep them, in and next to what a box may see. */
function plant(home: Home): void {
  for (const name of [
    '.ssh/id_ed25519',
    '.aws/credentials',
    '.netrc',
    '.npmrc',
    '.cargo/credentials.toml',
    '.config/gh/hosts.yml',
    '.fly/config.yml',
    '.gnupg/secring.gpg',
    '.local/share/uv/credentials/credentials.toml',
    '.local/share/keyrings/login.keyring',
    ...INSTALLED,
    '.rustup/credentials',
    'notes.txt',
  ])
    home.file(name, CANARY, 0o755)
  // Links from folders of the PATH: a program may be a link, a secret never gets in by one.
  home.link('.local/bin/key', join(home.path, '.ssh/id_ed25519'))
  home.link('.local/bin/gh-hosts', join(home.path, '.config/gh/hosts.yml'))
  home.link('.bun/bin/aws', '../../.aws/credentials')
}

describe('the home folder of a box', { skip: withoutBwrap }, () => {
  test('a command that makes a folder of the PATH a link, or puts one into it, shows nothing else of the home', async (t) => {
    const home = new Home(t)
    home.file('private/taxes/secret', CANARY)
    home.program('private/tool', `echo ${CANARY}`)
    const bin = join(home.work, 'bin')
    mkdirSync(bin)
    writeFileSync(join(bin, 'mine'), '#!/bin/sh\necho mine\n', { mode: 0o755 })
    home.onPath(bin)
    let ms = 0
    const clock = { now: () => Date.now(), monotonicMs: () => ms, machineBootId: 'boot' }
    const runner = await home.runner(t, { clock })
    await runner.box({ id: 'writer', workspace: home.work })
    await runner.box({ id: 'other' })
    assert.equal((await runner.run('other', 'mine')).stdout, 'mine\n')
    const secrets = `cat ${home.path}/private/taxes/secret ${bin}/secret; ${home.path}/private/tool; ${bin}/tool`
    for (const command of [
      `ln -s ${home.path}/private/tool bin/tool`,
      `rm -r bin; ln -s ${home.path}/private/taxes bin`,
    ]) {
      await runner.run('writer', command)
      for (const laterMs of [0, 5_000]) {
        ms += laterMs
        for (const box of ['writer', 'other'])
          assert.equal((await runner.run(box, secrets)).stdout, '', `${box}: ${command}`)
      }
    }
  })

  test('toolchains of sixteen managers work, credentials stay out, and no window is writable', async (t) => {
    const home = new Home(t)
    const tools = furnish(home)
    plant(home)
    for (const name of INSTALLED) chmodSync(join(home.path, name), 0o644)
    const runner = await home.runner(t)
    const { home: recorded, about } = await runner.box({ id: 'b1', workspace: home.work })
    assert.equal(recorded?.path, home.path)
    const script = tools.map(([command]) => `${command} || echo "FAILED ${command}"`).join('; echo; ')
    const { stdout, stderr } = await runner.run('b1', script)
    assert.deepEqual(
      stdout.split('\n').filter(Boolean),
      tools.map(([, prints]) => prints),
      stderr,
    )
    const searched = await runner.run('b1', {
      shell: `grep -rls ${CANARY} / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr --exclude-dir=dev --exclude-dir=opt; cat ~/.local/bin/key ~/.local/bin/gh-hosts ~/.bun/bin/aws; env | grep -c ${CANARY}; echo end`,
      merge: true,
    })
    assert.ok(!searched.stdout.includes(CANARY), searched.stdout)
    assert.ok(!/^\//m.test(searched.stdout.replaceAll(/^\S*(?:cat|grep):.*$/gm, '')), searched.stdout)
    const windows = recorded?.windows ?? []
    assert.ok(windows.length > 10)
    const writes = windows.map((window) => `(touch ${window}/x || : > ${window}) 2>/dev/null && echo wrote ${window}`)
    const wrote = await runner.run('b1', `${writes.join('; ')}; echo kept > ~/kept; ls -a ~ | head -50`)
    assert.ok(!wrote.stdout.includes('wrote'), wrote.stdout)
    assert.equal((await runner.run('b1', 'cat ~/kept')).stdout, 'kept\n')
    assert.ok(!existsSync(join(home.path, 'kept')), 'HOME is private')
    assert.ok(about?.some((sentence) => sentence.includes(`Commands start in ${home.work}`)))
  })

  test('virtual environments work, and a workspace cannot name a folder that no row of the table knows', async (t) => {
    const home = new Home(t)
    home.program('.pyenv/versions/3.11.4/bin/python3.11', 'echo python of pyenv')
    home.program('.local/share/uv/python/cpython-3.12/bin/python3.12', 'echo python of uv')
    home.file('.ssh/id_ed25519', CANARY)
    home.file('private/bin/tool', CANARY)
    const { work } = home
    const runner = await home.runner(t)
    const venv = (name: string, python: string): void => {
      mkdirSync(join(work, name, 'bin'), { recursive: true })
      writeFileSync(join(work, name, 'pyvenv.cfg'), `home = ${dirname(python)}\nversion = 3\n`)
      symlinkSync(python, join(work, name, 'bin/python'))
    }
    venv('.venv', join(home.path, '.pyenv/versions/3.11.4/bin/python3.11'))
    venv('venv', join(home.path, '.local/share/uv/python/cpython-3.12/bin/python3.12'))
    await runner.box({ id: 'b1', workspace: work })
    const { stdout } = await runner.run('b1', '.venv/bin/python; venv/bin/python')
    assert.equal(stdout, 'python of pyenv\npython of uv\n')
    for (const named of ['.ssh', 'private/bin', '.pyenv/../.ssh', '']) {
      writeFileSync(join(work, '.venv/pyvenv.cfg'), `home = ${home.path}/${named}\n`)
      const seen = await runner.run('b1', { shell: 'ls -aR ~; cat ~/.ssh/* ~/private/bin/*', merge: true })
      assert.ok(!seen.stdout.includes(CANARY) && !seen.stdout.includes('id_ed25519'), `${named}: ${seen.stdout}`)
    }
  })

  test('a toolchain that is installed or removed while the runner works is there, or gone, for the next command', async (t) => {
    const home = new Home(t)
    home.program('.nvm/versions/node/v1/bin/tool', 'echo one')
    home.onPath('.nvm/versions/node/v1/bin', '.later/bin')
    let now = 0
    const runner = await home.runner(t, {
      clock: { now: () => Date.now(), monotonicMs: () => (now += 10_000), machineBootId: 'test' },
    })
    await runner.box({ id: 'b1', workspace: home.work })
    assert.equal((await runner.run('b1', 'tool')).stdout, 'one\n')
    home.program('.later/bin/late', 'echo late')
    assert.equal((await runner.run('b1', 'late')).stdout, 'late\n')
    rmSync(join(home.path, '.nvm'), { recursive: true })
    assert.equal((await runner.run('b1', { shell: 'tool; late', merge: true })).stdout.endsWith('late\n'), true)
  })

  test("a commit has the user's name; the repository's own settings win; no other setting of the user gets in", async (t) => {
    const home = new Home(t)
    home.file(
      '.gitconfig',
      `[user]\n\tname = Ann \\"A\\" Example\n[include]\n\tpath = ~/.gitmail\n[credential]\n\thelper = store\n[alias]\n\tx = !touch /tmp/x\n[core]\n\tsshCommand = ${CANARY}\n[url "https://${CANARY}@host/"]\n\tinsteadOf = x\n[init]\n\tdefaultBranch = trunk\n`,
    )
    home.file('.gitmail', '[user]\n\temail = ann@example.org\n')
    const runner = await home.runner(t)
    await runner.box({ id: 'b1', workspace: home.work })
    const shown = await runner.run(
      'b1',
      'git init -q; git commit -q --allow-empty -m first; git log --format="%an <%ae> %D"; git config --global --list',
    )
    assert.equal(
      shown.stdout,
      'Ann "A" Example <ann@example.org> HEAD -> trunk\nuser.name=Ann "A" Example\nuser.email=ann@example.org\ninit.defaultbranch=trunk\n',
      shown.stderr,
    )
    execFileSync('git', ['-C', home.work, 'config', 'user.email', 'work@example.org'])
    const second = await runner.run('b1', 'git commit -q --allow-empty -m second; git log -1 --format=%ae')
    assert.equal(second.stdout, 'work@example.org\n')
  })

  test('home "private" shows /home/box and the PATH entries themselves, and nothing else of the home folder', async (t) => {
    const home = new Home(t)
    furnish(home)
    const runner = await home.runner(t)
    const { home: recorded } = await runner.box({ id: 'b1', workspace: home.work, home: 'private' })
    assert.equal(recorded?.path, '/home/box')
    const { stdout } = await runner.run('b1', 'echo $HOME; bun-tool; ls ~')
    assert.equal(stdout, '/home/box\nbun 1.3\n')
    assert.ok((await runner.run('b1', 'nvm-node')).stderr.includes('No such file'))
  })

  test('folders of the user can be added: read-only by default, writable if allowed; dangerous ones are refused', async (t) => {
    const home = new Home(t)
    const data = dirname(home.file('data/file', 'data'))
    const shared = dirname(home.file('shared/file', 'shared'))
    const sockets = join(home.path, 'sockets')
    mkdirSync(join(sockets, 'below'), { recursive: true })
    execFileSync('python3', ['-c', `import socket; socket.socket(socket.AF_UNIX).bind('${sockets}/below/s')`])
    const runner = await home.runner(t, { allowMount: [data, `${shared}:rw`, '/'] })
    const mounts = [{ path: data }, { path: shared, mode: 'rw' }]
    const box = await runner.box({ id: 'b1', workspace: home.work, mounts })
    assert.deepEqual(box.mounts, [
      { path: data, mode: 'ro' },
      { path: shared, mode: 'rw' },
    ])
    const { stdout } = await runner.run('b1', {
      shell: `cat ${data}/file; echo; echo more > ${shared}/new; touch ${data}/new`,
      merge: true,
    })
    assert.match(stdout, /^data\n.*Read-only file system/)
    assert.equal(readFileSync(join(shared, 'new'), 'utf8'), 'more\n')
    for (const path of [
      '/',
      '/etc',
      '/run',
      '/proc',
      home.path,
      dirname(home.path),
      runner.stateDir,
      sockets,
      join(data, 'file'),
      '/nowhere',
    ]) {
      const answer = await runner.call('POST', 'boxes', { workspace: home.work, mounts: [{ path }] })
      assert.equal(answer.status, 400, `${path}: ${answer.text}`)
      assert.match(answer.text, /mounts\.0\.path/)
    }
    const rw = await runner.call('POST', 'boxes', { workspace: home.work, mounts: [{ path: data, mode: 'rw' }] })
    assert.match(rw.text, /--allow-mount DIR:rw/)
  })
})

test('an exact isolation level is honoured or refused', { skip: withoutBwrap }, async (t) => {
  const strict = await inProcess(t)
  const refused = await strict.call('POST', 'boxes', { isolation: { level: 'process' } })
  assert.equal(refused.status, 501)
  assert.match(refused.text, /--allow-isolation process/)
  const open = await inProcess(t, { allowIsolation: ['process'] })
  assert.equal((await open.box({ id: 'p', isolation: { level: 'process' } })).isolation.level, 'process')
  assert.equal((await open.box({ id: 'b', isolation: { min: 'process' } })).isolation.level, 'bwrap')
  assert.equal(
    (await open.run('p', 'readlink /proc/self/ns/pid')).stdout,
    execFileSync('readlink', ['/proc/self/ns/pid'], { encoding: 'utf8' }),
  )
})

test('the real tools of this machine work in a box as they do outside', { skip: withoutBwrap }, async (t) => {
  const tools = ['node', 'npm', 'python3', 'rustc', 'cargo', 'go', 'git'].filter(
    (name) => findProgram(name, process.env['PATH'] ?? '') !== null,
  )
  const PATH = (process.env['PATH'] ?? '')
    .split(':')
    .filter((entry) => !entry.includes('node_modules'))
    .join(':')
  const environment = { ...process.env, PATH }
  const runner = await inProcess(t, { environment })
  await runner.box({ id: 'b1' })
  for (const tool of tools) {
    const command = [tool, tool === 'go' ? 'version' : '--version']
    const outside = execFileSync(tool, command.slice(1), { encoding: 'utf8', cwd: '/', env: environment })
    assert.equal((await runner.run('b1', { command })).stdout, outside)
  }
})
