/** What a box cannot do to its host workspace, or through it. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { bwrapCommand } from '../../src/isolation/bwrap-args.ts'
import { asProgram, inProcess, type TestRunner, until, withoutBwrap } from '../kit.ts'

async function onProject(t: TestContext, files: Record<string, string | null>): Promise<[TestRunner, string]> {
  const parent = tempFolder(t, 'workspace')
  const project = join(parent, 'project')
  mkdirSync(project)
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(project, text === null ? name : dirname(name)), { recursive: true })
    if (text !== null) writeFileSync(join(project, name), text)
  }
  const runner = await inProcess(t, { allowWorkspace: [parent] })
  await runner.box({ id: 'b1', workspace: project })
  return [runner, project]
}

describe('a host folder', { skip: withoutBwrap }, async () => {
  test('contains nothing that its owner did not put there, during a command and after it', async (t) => {
    const [runner, project] = await onProject(t, { 'a.txt': 'a' })
    await runner.call('POST', 'boxes/b1/exec', { execId: 'e1', shell: 'ls -A; cat', stdin: 'pipe' })
    for await (const event of runner.client.execEvents('b1', 'e1')) if (event.type === 'stdout') break
    assert.deepEqual(readdirSync(project), ['a.txt'])
    await runner.call('POST', 'boxes/b1/execs/e1/kill')
    assert.equal((await runner.client.execOutput('b1', 'e1', 'stdout')).toString(), 'a.txt\n')
    assert.deepEqual(readdirSync(project), ['a.txt'])
  })

  test('that is a fresh repository can be added, committed and cleaned from a box, and git sees no file of ours', async (t) => {
    const [runner, project] = await onProject(t, { 'a.txt': 'a' })
    execFileSync('git', ['init', '-q', project])
    const git = 'git -c user.name=box -c user.email=box@example.org'
    const { exec, stdout, stderr } = await runner.run('b1', {
      shell: `set -e; git add -A; ${git} commit -qm x; git status --short; git clean -fdx; git ls-files`,
    })
    assert.deepEqual([exec.exit?.code, stdout, stderr], [0, 'a.txt\n', ''])
    const seenOutside = execFileSync('git', ['-C', project, 'status', '--short'], { encoding: 'utf8' })
    assert.equal(seenOutside, '')
  })

  test('keeps an existing breakfall.toml; a box may create a missing one, which is then protected too', async (t) => {
    const [runner, project] = await onProject(t, {})
    const config = join(project, 'breakfall.toml')
    assert.equal((await runner.run('b1', { shell: 'echo first > breakfall.toml' })).exec.exit?.code, 0)
    for (const attack of ['echo evil > breakfall.toml', 'rm -f breakfall.toml', 'touch x; mv -f x breakfall.toml'])
      assert.notEqual((await runner.run('b1', { shell: attack })).exec.exit?.code, 0, attack)
    assert.equal(readFileSync(config, 'utf8'), 'first\n')
  })

  test('has protected git hooks and config, existing or not, and a protected .git file', async (t) => {
    const attack =
      'echo evil > .git; echo evil > .git/config; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; mv .git old; rm -rf .git/hooks .git/config'
    const [young, folder] = await onProject(t, { '.git': null })
    await young.run('b1', { shell: `${attack}; true` })
    assert.deepEqual(readdirSync(join(folder, '.git')).toSorted(), ['config', 'hooks'])
    assert.deepEqual(
      [readFileSync(join(folder, '.git/config'), 'utf8'), readdirSync(join(folder, '.git/hooks'))],
      ['', []],
    )
    const [worktree, other] = await onProject(t, { '.git': 'gitdir: elsewhere' })
    await worktree.run('b1', { shell: `${attack}; true` })
    assert.equal(readFileSync(join(other, '.git'), 'utf8'), 'gitdir: elsewhere')
  })

  test('accepts no git hooks through the files API, at any depth', async (t) => {
    const [runner, project] = await onProject(t, { 'sub/.git': null })
    const settings = [
      'config',
      'config.worktree',
      'commondir',
      'hooks/pre-commit',
      'modules/a/config',
      'worktrees/a/gitdir',
    ]
    for (const path of ['breakfall.toml', '.git', '.git/config', ...settings.map((name) => `sub/.git/${name}`)])
      assert.equal((await runner.call('PUT', `boxes/b1/files/${path}`, 'x')).status, 403, path)
    assert.equal((await runner.call('PUT', 'boxes/b1/files/sub/.git/HEAD', 'x')).status, 201)
    assert.deepEqual(readdirSync(join(project, 'sub/.git')), ['HEAD'])
  })

  test('whose breakfall.toml is a link works, but the link is not protected', async (t) => {
    const [runner, project] = await onProject(t, { 'real.toml': 'real' })
    symlinkSync('real.toml', join(project, 'breakfall.toml'))
    const { stdout } = await runner.run('b1', { shell: 'cat breakfall.toml; rm breakfall.toml' })
    assert.equal(stdout, 'real')
    assert.deepEqual(readdirSync(project), ['real.toml'])
  })

  for (const [what, swap] of [
    ['a link', (place: string) => symlinkSync('/etc', place)],
    ['another folder', (place: string) => mkdirSync(place)],
    ['nothing', () => {}],
  ] as const) {
    test(`that became ${what} is refused: 422 for commands, 404 for files, and each response names it`, async (t) => {
      const [runner, project] = await onProject(t, {})
      mkdirSync(`${project}-keeps-the-inode`) // keeps the new folder from getting the old inode
      rmdirSync(project)
      swap(project)
      const started = await runner.call('POST', 'boxes/b1/exec', { execId: 'e1', shell: 'ls -A' })
      assert.deepEqual(
        [started.status, started.json.category, started.json['reason'], started.json['boxId']],
        [422, 'spawn_failed', 'cwd_missing', 'b1'],
      )
      assert.match(String(started.json['detail']), new RegExp(project))
      assert.equal((await runner.call('GET', 'boxes/b1/execs/e1')).status, 404)
      for (const [method, path] of [
        ['GET', 'files'],
        ['GET', 'files/passwd'],
        ['PUT', 'files/x'],
        ['DELETE', 'files/x'],
      ] as const) {
        const answer = await runner.call(method, `boxes/b1/${path}`, method === 'PUT' ? 'x' : undefined)
        assert.deepEqual([answer.status, answer.json.category], [404, 'file_not_found'], `${method} ${path}`)
        assert.match(String(answer.json['detail']), new RegExp(project))
      }
    })
  }

  test("that is swapped for a link again and again is seen or refused, and the link's target is never seen", async (t) => {
    const parent = tempFolder(t, 'workspace')
    const secret = tempFolder(t, 'secret')
    writeFileSync(join(secret, 'marker'), 'secret')
    mkdirSync(join(parent, 'wide/narrow'), { recursive: true })
    writeFileSync(join(parent, 'wide/narrow/own'), '')
    symlinkSync(secret, join(parent, 'wide/link'))
    const runner = await inProcess(t, { allowWorkspace: [parent] })
    await runner.box({ id: 'outer', workspace: join(parent, 'wide') })
    await runner.box({ id: 'inner', workspace: join(parent, 'wide/narrow') })
    assert.equal((await runner.run('inner', 'ls -A')).stdout, 'own\n')
    await runner.call('POST', 'boxes/outer/exec', {
      execId: 'swap',
      shell: 'echo up; while :; do mv narrow aside; mv link narrow; mv narrow link; mv aside narrow; done',
    })
    for await (const event of runner.client.execEvents('outer', 'swap')) if (event.type === 'stdout') break
    const seen = { ran: 0, refused: 0 }
    for (let i = 0; i < 25; i += 1) {
      const started = await runner.call('POST', 'boxes/inner/exec', { execId: `e${i}`, shell: 'ls -A; echo end' })
      if (started.status !== 201) {
        assert.equal(started.status, 422, started.text)
        seen.refused += 1
        continue
      }
      const { exit } = await runner.client.waitExec('inner', `e${i}`)
      const output = (await runner.client.execOutput('inner', `e${i}`, 'stdout')).toString()
      assert.ok(!output.includes('marker'), output)
      if (exit?.started === true) assert.ok(output === '' || output === 'own\nend\n', output)
      else {
        assert.equal(exit?.cause, 'spawn_failed')
        assert.match(exit.reason ?? '', /^(cwd_missing|sandbox_failed)$/) // detected by the runner, or only by bwrap
      }
      seen[exit?.started === true ? 'ran' : 'refused'] += 1
    }
    t.diagnostic(JSON.stringify(seen))
    await runner.call('POST', 'boxes/outer/execs/swap/kill')
    assert.equal(seen.ran + seen.refused, 25)
    // The swap stopped at any point. With the folder back at its path, it is the same workspace again.
    const [narrow, aside] = [join(parent, 'wide/narrow'), join(parent, 'wide/aside')]
    if (existsSync(aside)) {
      rmSync(narrow, { force: true }) // a link, if anything
      renameSync(aside, narrow)
    }
    assert.equal((await runner.run('inner', 'ls -A')).stdout, 'own\n')
  })
})

describe('the entry script of a sandbox', async () => {
  const enter = async (numbers: string, name = '.'): Promise<{ code: number | null; out: string; status: string }> => {
    const [program = '', ...args] = bwrapCommand(
      {
        user: { kind: 'userns', uid: 0, gid: 0, disableUserns: false },
        cwd: '/tmp',
        environment: { A: 'b c', PATH: '/usr/bin:/bin' },
        entry: { workspace: '/', numbers: [{ name, numbers }] },
      },
      ['sh', '-c', 'pwd; env | sort; test -e /proc/self/fd/8 && echo leaked'],
    )
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore', ...ignored, 'pipe'], env: { EVIL: '1' } })
    const read = async (index: number): Promise<string> =>
      Buffer.concat(await Array.fromAsync(child.stdio[index] as AsyncIterable<Buffer>)).toString()
    const [out, status] = await Promise.all([read(1), read(8)])
    await until(
      () => child.exitCode,
      (code) => code !== null,
    )
    return { code: child.exitCode, out, status }
  }
  const ignored = ['ignore', 'ignore', 'ignore', 'ignore', 'ignore'] as const

  test('starts the command in its folder, with its environment and none of our descriptors, if the inodes match', async () => {
    const { dev, ino } = lstatSync('/', { bigint: true })
    const { out, status } = await enter(`${dev}:${ino}`)
    assert.equal(out, '/tmp\nA=b c\nPATH=/usr/bin:/bin\nPWD=/tmp\n')
    assert.equal(status, '')
  })

  test('reports "refused" and starts nothing if they do not, whatever the folder is called', async (t) => {
    assert.deepEqual(await enter('1:2'), { code: 126, out: '', status: 'refused\n' })
    const folder = tempFolder(t)
    const names = ['a b', "it's", '*', '$(echo x)', 'two\nlines'].map((name) => join(folder, name))
    for (const name of names) mkdirSync(name)
    for (const name of names) {
      const { dev, ino } = lstatSync(name, { bigint: true })
      assert.equal((await enter(`${dev}:${ino}`, name)).status, '', name)
      renameSync(name, `${name}.old`)
      symlinkSync('/etc', name)
      assert.equal((await enter(`${dev}:${ino}`, name)).status, 'refused\n', name)
    }
  })
})

test('a descriptor that the runner inherited does not reach a box', { skip: withoutBwrap }, async (t) => {
  const stateDir = join(tempFolder(t), 'state')
  const secret = join(stateDir, '..', 'secret')
  writeFileSync(secret, 'secret')
  const runner = await asProgram(t, stateDir, ['--allow-isolation', 'process'], {}, { 40: openSync(secret, 'r') })
  await runner.box({ id: 'b1' })
  const { stdout } = await runner.run('b1', 'cat /proc/self/fd/40; ls -l /proc/self/fd')
  assert.ok(!stdout.includes('secret'), stdout)
  assert.match(stdout, /40 -> \/dev\/null/)
})
