/** Checkpoints of a real workspace, and restoring them: what comes back, what is refused, and what must never be lost. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import {
  type Checkpoint,
  type CheckpointList,
  checkpointListSchema,
  checkpointSchema,
  type Restored,
  restoredSchema,
} from '@breakfall/wire'
import { asProgram, inProcess, type TestRunner, until, withoutBwrap, withoutRoot } from '../kit.ts'

const file = { after: (clean: () => unknown) => after(async () => void (await clean())) }
const parent = tempFolder(file, 'checkpoints')
const runner = await inProcess(file, {
  allowWorkspace: [parent],
  allowIsolation: ['process'],
  checkpoints: { bytesMax: 3_000_000, filesMax: 300, fileBytesMax: 100_000 },
})
let boxes = 0
/** Of one repository. CHECKPOINTS=100 takes as many as a long day of work: about ten seconds. */
const CHECKPOINTS = Number(process.env['CHECKPOINTS'] ?? 10)

/** Runs in the workspace, from outside the box. */
const sh = (folder: string, command: string): string =>
  execFileSync('/bin/sh', ['-c', command], { cwd: folder, encoding: 'latin1', env: { ...process.env, LC_ALL: 'C' } })

/** Names, kinds, permissions, targets and contents of everything but `.git`. */
const treeOf = (folder: string): string =>
  sh(
    folder,
    `find . -name .git -prune -o -printf '%y %m %p %l\\n' | sort; find . -name .git -prune -o -type f -print0 | sort -z | xargs -0r sha1sum`,
  )

const GIT = 'git -c user.name=a -c user.email=a@example.org'

class Workspace {
  readonly folder: string
  readonly boxId: string
  readonly on: TestRunner

  constructor(folder: string, boxId: string, on: TestRunner) {
    this.folder = folder
    this.boxId = boxId
    this.on = on
  }

  async run(shell: string): Promise<void> {
    const { exec, stderr } = await this.on.run(this.boxId, { shell, execId: `e${(boxes += 1)}` })
    assert.equal(exec.exit?.code, 0, stderr)
  }

  async take(label?: string): Promise<Checkpoint> {
    const { status, json, text } = await this.call('POST', '', label === undefined ? {} : { label })
    assert.equal(status, 201, text)
    return checkpointSchema.parse(json)
  }

  async restore(id: string, request: object = {}): Promise<Restored> {
    const { status, json, text } = await this.call('POST', `/${id}/restore`, request)
    assert.equal(status, 200, text)
    return restoredSchema.parse(json)
  }

  async refused(id: string, request: object = {}): Promise<[number, string | undefined, unknown]> {
    const { status, json } = await this.call('POST', `/${id}/restore`, request)
    return [status, json.category, json['paths']]
  }

  async list(): Promise<CheckpointList> {
    return checkpointListSchema.parse((await this.call('GET', '')).json)
  }

  call(method: string, path: string, body?: object, headers = {}) {
    return this.on.call(method, `boxes/${this.boxId}/checkpoints${path}`, body, headers)
  }
}

async function workspace(files: string, create: object = {}, on: TestRunner = runner): Promise<Workspace> {
  const boxId = `b${(boxes += 1)}`
  const folder = join(parent, boxId)
  mkdirSync(folder)
  sh(folder, files)
  await on.box({ id: boxId, workspace: folder, checkpoints: 'manual', ...create })
  return new Workspace(folder, boxId, on)
}

describe('checkpoints', { skip: withoutBwrap }, () => {
  test('bring back what a command edited, made, removed, linked and changed the permissions of, and the safety redoes it', async () => {
    const ws =
      await workspace(`git init -q . && mkdir -p src empty/deep 'odd dir' && echo one >src/a && echo two >b && chmod 755 b
      echo s >.env && chmod 600 .env && ln -s b link && ${GIT} add src b && ${GIT} commit -qm x && echo tracked later >src/c
      touch 'odd dir/new
line' "$(printf 'bad\\377name')" && chmod 700 'odd dir'`)
    const original = treeOf(ws.folder)
    const { id, files, left } = await ws.take('first')
    assert.deepEqual([files, left], [7, []])
    await ws.run(`echo ONE >src/a; rm -r b empty 'odd dir'; mkdir -p b/now/a/folder; echo x >b/file; chmod 644 .env; ln -sf src/a link
      ln src/a hard; printf 1 >"$(printf 'bad\\377name')"; rm src/c; mkdir void`)
    const changed = treeOf(ws.folder)
    const preview = await ws.restore(id, { dryRun: true })
    assert.deepEqual([preview.safety, preview.conflicts], [null, []])
    assert.equal(treeOf(ws.folder), changed, 'a preview changes nothing')
    const { safety, restored, removed, skipped } = await ws.restore(id)
    assert.equal(treeOf(ws.folder), original)
    assert.deepEqual([restored, removed, skipped], [preview.restored, preview.removed, []])
    await ws.restore(safety ?? '')
    assert.equal(treeOf(ws.folder), changed)
    assert.deepEqual(
      (await ws.list()).checkpoints.map(({ kind }) => kind),
      ['taken', 'safety', 'safety'],
    )
  })

  test('a file that someone else changed is named and kept, and force keeps it in the safety checkpoint', async () => {
    const ws = await workspace('echo one >a; echo one >b; echo one >c')
    const { id } = await ws.take()
    await ws.run('echo two >a; echo two >b; echo two >c')
    writeFileSync(join(ws.folder, 'a'), 'mine')
    assert.deepEqual(await ws.refused(id), [409, 'checkpoint_conflict', ['a']])
    assert.deepEqual((await ws.restore(id, { dryRun: true })).conflicts, ['a'])
    assert.equal(sh(ws.folder, 'cat a b c'), 'minetwo\ntwo\n')
    assert.equal((await ws.restore(id, { paths: ['b'] })).restored, 1)
    assert.equal(sh(ws.folder, 'cat a b c'), 'mineone\ntwo\n')
    const { safety } = await ws.restore(id, { force: true })
    assert.equal(sh(ws.folder, 'cat a b c'), 'one\none\none\n')
    await ws.restore(safety ?? '')
    assert.equal(sh(ws.folder, 'cat a b c'), 'mineone\ntwo\n')
  })

  test('edits between two commands count as changes by someone else, files written over the API do not', async () => {
    const ws = await workspace('echo one >a; echo one >b')
    const { id } = await ws.take()
    await ws.run('true')
    writeFileSync(join(ws.folder, 'a'), 'mine')
    await ws.run('true')
    await runner.call('PUT', `boxes/${ws.boxId}/files/b`, 'by the owner of the box')
    assert.deepEqual(await ws.refused(id), [409, 'checkpoint_conflict', ['a']])
  })

  test('a restore waits for no command: it is refused while one runs, and a preview is not', async () => {
    const ws = await workspace('echo one >a')
    const { id } = await ws.take()
    await ws.run('echo two >a')
    await runner.call('POST', `boxes/${ws.boxId}/exec`, { execId: 'busy', shell: 'cat', stdin: 'pipe' })
    assert.deepEqual((await ws.refused(id)).slice(0, 2), [409, 'workspace_busy'])
    assert.equal((await ws.restore(id, { dryRun: true })).restored, 1)
    assert.ok((await ws.take()).during.includes('busy'))
    await runner.call('POST', `boxes/${ws.boxId}/execs/busy/kill`)
    assert.equal((await ws.restore(id)).restored, 1)
  })

  test('a repository is byte-identical afterwards, whatever its attributes, filters, hooks and monitors want to run', async () => {
    const ws =
      await workspace(`git init -q . && printf 'a\\r\\n$Id$\\n' >a && ${GIT} add a && ${GIT} commit -qm x && mkdir -p .git/hooks
      printf '* text eol=lf ident filter=evil working-tree-encoding=UTF-16\\n' >.gitattributes
      git config filter.evil.clean 'touch ${parent}/ran; cat' && git config filter.evil.required true
      git config core.fsmonitor 'touch ${parent}/ran' && git config core.hooksPath .git/hooks
      printf '#!/bin/sh\\ntouch ${parent}/ran\\n' >.git/hooks/post-index-change && chmod +x .git/hooks/post-index-change
      git init -q sub && echo x >sub/x && git -C sub config core.fsmonitor 'touch ${parent}/ran'
      mkfifo pipe && head -c 200000 /dev/zero >huge && ln -s /etc outside`)
    await ws.run('true') // the box's guards are in place
    const git = (): string =>
      sh(
        ws.folder,
        'find .git sub/.git -type f -print0 | sort -z | xargs -0 sha1sum; git hash-object --no-filters .git/index',
      )
    const repository = git()
    const { id, left } = await ws.take()
    for (let i = 1; i < CHECKPOINTS; i++) await ws.take()
    await ws.run('rm a outside; mkdir outside; echo b >outside/b')
    await ws.restore(id)
    assert.equal(git(), repository)
    assert.equal(readFileSync(join(ws.folder, 'a'), 'latin1'), 'a\r\n$Id$\n')
    assert.equal(sh(ws.folder, 'readlink outside'), '/etc\n')
    assert.equal(existsSync(join(parent, 'ran')), false)
    assert.deepEqual(left.map(({ path }) => path).toSorted(), ['huge', 'pipe', 'sub'])
  })

  test('what no safety checkpoint can hold is never overwritten, not even by force', async () => {
    const ws = await workspace('echo one >a; echo one >b')
    const { id } = await ws.take()
    await ws.run('head -c 200000 /dev/zero >a; echo two >b')
    assert.deepEqual(await ws.refused(id), [409, 'checkpoint_conflict', ['a']])
    const { restored, skipped } = await ws.restore(id, { force: true })
    assert.deepEqual([restored, skipped.map(({ path }) => path)], [1, ['a']])
    assert.equal(sh(ws.folder, 'wc -c <a; cat b'), '200000\none\n')
  })

  test('a link in place of a folder leads nowhere', async () => {
    const ws = await workspace('mkdir d; echo one >d/a')
    const outside = join(parent, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'a'), 'not ours')
    const { id } = await ws.take()
    await ws.run(`rm -r d; ln -s ${outside} d`)
    await ws.restore(id)
    assert.equal(sh(ws.folder, 'cat d/a'), 'one\n')
    assert.equal(readFileSync(join(outside, 'a'), 'utf8'), 'not ours')
    renameSync(ws.folder, `${ws.folder}.moved`)
    symlinkSync(outside, ws.folder)
    assert.deepEqual((await ws.refused(id)).slice(0, 2), [404, 'file_not_found'])
    assert.deepEqual(readdirSync(outside), ['a'])
  })

  test('ignored folders stay out of it, and node_modules is one without being asked', async () => {
    const ws = await workspace('mkdir node_modules dist; touch node_modules/x dist/y; echo dist/ >.gitignore')
    const { id, left, files } = await ws.take()
    assert.deepEqual([files, left.map(({ path }) => path)], [1, ['dist/', 'node_modules/']])
    await ws.run('echo new >dist/y; echo new >node_modules/z; echo new >n')
    assert.deepEqual((await ws.restore(id)).files, [{ path: 'n', change: 'removed', bytes: 0 }])
    assert.equal(sh(ws.folder, 'cat dist/y node_modules/z'), 'new\nnew\n')
  })

  test('what was there but is not held is no new file: ignored, large and nested ones stay, and the answer names them', async () => {
    const ws =
      await workspace(`mkdir dist; chmod 700 dist; echo mine >dist/y; echo dist/ >.gitignore; head -c 200000 /dev/zero >large
      git init -q sub; echo mine >sub/x; ln -s nowhere other; mkfifo pipe`)
    const { id } = await ws.take()
    await ws.run('rm .gitignore; echo small >large; rm -rf sub/.git; rm pipe; echo file >pipe; echo new >new')
    const preview = await ws.restore(id, { dryRun: true })
    const { skipped, files } = await ws.restore(id)
    const named = ['dist/y', 'large', 'pipe', 'sub/x']
    assert.deepEqual(
      [preview.skipped, skipped].map((all) => all.map(({ path }) => path).toSorted()),
      [named, named],
    )
    assert.deepEqual(
      files.map(({ path, change }) => `${change} ${path}`),
      ['added .gitignore', 'removed new'],
    )
    assert.equal(sh(ws.folder, 'cat dist/y large pipe sub/x; stat -c %a dist'), 'mine\nsmall\nfile\nmine\n700\n')
    assert.deepEqual((await ws.restore(id)).safety, null, 'nothing is left to do')
  })

  test('a difference is a list of files, or a patch that git understands', async () => {
    const ws = await workspace('echo one >a; echo one >b')
    const { id } = await ws.take()
    await ws.run('echo two >a; rm b; echo new >c')
    const second = await ws.take()
    await ws.run('echo three >a')
    const { json } = await ws.call('GET', `/${id}/diff?to=${second.id}`)
    assert.deepEqual(json['files'], [
      { path: 'a', change: 'changed', bytes: 4 },
      { path: 'b', change: 'removed', bytes: 0 },
      { path: 'c', change: 'added', bytes: 4 },
    ])
    const { text, headers } = await ws.call('GET', `/${id}/diff`, undefined, { accept: 'text/x-diff' })
    assert.match(headers.get('content-type') ?? '', /^text\/x-diff/)
    const other = join(parent, 'patched')
    mkdirSync(other)
    sh(other, 'echo one >a; echo one >b')
    execFileSync('git', ['apply'], { cwd: other, input: text })
    assert.equal(treeOf(other), treeOf(ws.folder))
  })

  test('the oldest are removed when the budget is reached, and a checkpoint that can never fit is refused', async () => {
    const ws = await workspace('true')
    for (let i = 0; i < 4; i++) {
      sh(ws.folder, 'for f in $(seq 12); do head -c 90000 /dev/urandom >$f; done')
      await ws.take(`${i}`)
    }
    const { checkpoints, bytes } = await ws.list()
    assert.ok(bytes <= 3_000_000, `${bytes} bytes`)
    assert.ok(checkpoints.length < 4 && checkpoints.at(-1)?.label === '3')
    assert.equal((await ws.refused('01a1ec13-0000-7000-8000-000000000000'))[1], 'checkpoint_not_found')
    await ws.restore(checkpoints[0]?.id ?? '', { force: true })
    // A killed process may have left a ref that no list names.
    const git = `git --git-dir ${join(runner.stateDir, 'boxes/default', ws.boxId, 'checkpoints/store')}`
    sh(ws.folder, `${git} update-ref refs/checkpoints/unlisted refs/checkpoints/${checkpoints[1]?.id}`)
    assert.equal((await ws.call('DELETE', `/${checkpoints[1]?.id}`)).status, 204)
    const listed = (await ws.list()).checkpoints.map(({ id }) => id).toSorted()
    assert.deepEqual(sh(ws.folder, `${git} for-each-ref --format='%(refname:lstrip=2)'`).split('\n'), [...listed, ''])
    sh(ws.folder, 'for f in $(seq 301); do : >$f; done')
    const { status, json } = await ws.call('POST', '', {})
    assert.deepEqual([status, json.category], [429, 'quota_exceeded'])
    assert.equal((await ws.list()).skipped.length, 1)
  })

  test('a box without checkpoints refuses them, an automatic one has its first without being asked', async () => {
    const off = await workspace('true', { checkpoints: 'off' })
    assert.deepEqual((await off.call('GET', '')).status, 400)
    const auto = await workspace('echo one >a', { checkpoints: 'auto' })
    await until(
      () => auto.list(),
      ({ checkpoints }) => checkpoints.length === 1,
    )
  })

  test('a worktree, a repository in the middle of a merge, and one with a damaged index have checkpoints', async () => {
    const main = await workspace(`git init -q . && echo 1 >a && ${GIT} add a && ${GIT} commit -qm x && git branch other
      git worktree add -q ${parent}/tree other && echo 2 >a && ${GIT} commit -qam y && cd ${parent}/tree && echo 3 >a && ${GIT} commit -qam z`)
    sh(main.folder, `${GIT} merge -q other || true`)
    const conflicted = treeOf(main.folder)
    const first = await main.take()
    await main.run('echo solved >a')
    await main.restore(first.id)
    assert.equal(treeOf(main.folder), conflicted)
    await runner.box({ id: 'tree', workspace: join(parent, 'tree'), checkpoints: 'manual' })
    const tree = new Workspace(join(parent, 'tree'), 'tree', runner)
    assert.equal((await tree.take()).files, 1)
    const damaged = await workspace(`git init -q . && echo 1 >a && ${GIT} add a && printf DIRC >.git/index`)
    assert.equal((await damaged.take()).files, 1)
  })

  test('a runner killed during a checkpoint and during a restore loses no file, and its successor can continue', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const flags = ['--allow-workspace', parent]
    const first = await asProgram(t, stateDir, flags)
    const ws = await workspace('for i in $(seq 250); do echo $i >$i; done', {}, first)
    const { id } = await ws.take()
    await ws.run('for i in $(seq 250); do echo new >$i; done')
    const changed = treeOf(ws.folder)
    void ws.call('POST', '', {}).catch(() => undefined)
    void ws.call('POST', `/${id}/restore`, {}).catch(() => undefined)
    await until(
      () => readdirSync(ws.folder).some((name) => name.startsWith('.breakfall-')) || treeOf(ws.folder) !== changed,
      (isUnderWay) => isUnderWay,
    )
    await first.kill('SIGKILL')
    for (let i = 1; i <= 250; i++) {
      const text = readFileSync(join(ws.folder, String(i)), 'utf8')
      assert.ok(text === 'new\n' || text === `${i}\n`, `${i} is half of two versions: ${JSON.stringify(text)}`)
    }
    const second = await asProgram(t, stateDir, flags)
    const again = new Workspace(ws.folder, ws.boxId, second)
    assert.deepEqual(
      readdirSync(ws.folder).filter((name) => name.startsWith('.')),
      [],
    )
    await again.restore(id)
    assert.equal(sh(ws.folder, 'cat $(seq 250)'), sh(ws.folder, 'seq 250'))
    const safety = (await again.list()).checkpoints.find(({ kind }) => kind === 'safety')
    await again.restore(safety?.id ?? '')
    assert.equal(sh(ws.folder, 'cat $(seq 250) | sort -u'), 'new\n')
  })

  test(
    'a plain user gets back what is in read-only folders, and these stay read-only',
    { skip: withoutRoot },
    async (t) => {
      const [user, folder] = [{ uid: 65_534, gid: 65_534 }, tempFolder(t)]
      chmodSync(folder, 0o755)
      const project = join(folder, 'project')
      sh(folder, 'mkdir -p project/ro/deep project/kept; echo one >project/ro/deep/a; echo one >project/kept/b')
      sh(project, 'chmod 555 ro/deep ro; chown -R 65534:65534 .')
      const own = await asProgram(t, join(folder, 'state'), ['--allow-workspace', folder], user)
      await own.box({ id: 'b1', workspace: project, checkpoints: 'manual' })
      const ws = new Workspace(project, 'b1', own)
      const original = treeOf(project)
      const { id } = await ws.take()
      await ws.run(
        'chmod 755 ro ro/deep; echo two >ro/deep/a; touch ro/new; chmod 555 ro/deep ro; echo two >kept/b; chmod 555 kept',
      )
      const changed = treeOf(project)
      const { safety, skipped } = await ws.restore(id)
      assert.deepEqual([treeOf(project), skipped], [original, []])
      await ws.restore(safety ?? '')
      assert.equal(treeOf(project), changed)
    },
  )

  test('pipes, links and devices in place of git files keep no checkpoint waiting and are not read', async () => {
    for (const odd of [
      'mkfifo .git/config',
      'ln -s /dev/zero .git/config',
      'mkfifo .git/index',
      'mkfifo .git/info/exclude',
    ]) {
      const name = odd.split(' ').at(-1)
      const ws = await workspace(`git init -q . && echo one >a && git add a && rm -f ${name} && ${odd}`)
      assert.equal((await ws.take()).files, 1, odd)
    }
  })

  test('a damaged object is found before any file changes', async () => {
    const ws = await workspace('echo one >a; echo one >b')
    const { id } = await ws.take()
    await ws.run('echo two >a; echo two >b')
    const oid = createHash('sha1').update('blob 4\0one\n').digest('hex')
    const object = join(
      runner.stateDir,
      'boxes/default',
      ws.boxId,
      'checkpoints/store/objects',
      oid.slice(0, 2),
      oid.slice(2),
    )
    chmodSync(object, 0o644)
    appendFileSync(object, 'x')
    rmSync(object)
    assert.equal((await ws.refused(id))[0], 500)
    assert.equal(sh(ws.folder, 'cat a b'), 'two\ntwo\n')
    assert.deepEqual(readdirSync(ws.folder), ['a', 'b'])
  })
})
