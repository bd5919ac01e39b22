/** A box must not make git on the host run anything: each attack is tried, then the user works in the repository. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { tempFolder } from '../../../../test/kit/folder.ts'
import { findProgram } from '../../src/isolation/find-program.ts'
import { inProcess, type TestRunner, until, withoutBwrap } from '../kit.ts'

const skip = withoutBwrap || (findProgram('git', '/usr/bin:/bin') === null && 'git is not installed')
const WHO = ['-c', 'user.name=ann', '-c', 'user.email=ann@example.org', '-c', 'protocol.file.allow=always']

/** As the user on the host. */
function git(folder: string, ...args: readonly string[]): string {
  return execFileSync('git', [...WHO, ...args], { cwd: folder, env: HOST, encoding: 'utf8', stdio: 'pipe' })
}

const HOST = { PATH: process.env['PATH'], HOME: '/nonexistent', GIT_CONFIG_NOSYSTEM: '1', GIT_PAGER: 'cat' }

type Place = { readonly parent: string; readonly project: string; readonly mark: string }

type Attack = {
  readonly name: string
  /** Before the box, on the host. */
  readonly given?: (place: Place) => void
  /** One command each. MARK is a file that only a program on the host can make. */
  readonly commands: readonly string[]
  /** Through the files API, after the commands: files with their content. `refused` are those that it must refuse. */
  readonly writes?: Readonly<Record<string, string>>
  readonly refused?: readonly string[]
  /** What the user does after it, besides the usual. */
  readonly afterwards?: (place: Place) => void
  /** What the record says was set aside. */
  readonly aside?: readonly string[]
  /** A guard that was moved away is mounted again at once, sometimes before the command has written anything. */
  readonly moves?: boolean
}

const evil = (file: string): string =>
  `printf '[core]\\n\\tfsmonitor = "touch MARK; false"\\n\\tpager = "touch MARK; cat"\\n\\tbare = false\\n\\trepositoryformatversion = 0\\n' >> ${file}`
const EVIL =
  '[core]\n\tfsmonitor = "touch MARK; false"\n\tbare = false\n\tworktree = PROJECT\n\trepositoryformatversion = 0\n'
const hook = (folder: string): string =>
  `mkdir -p ${folder}; for h in pre-commit post-commit post-index-change; do printf '#!/bin/sh\\ntouch MARK\\n' > ${folder}/$h; chmod +x ${folder}/$h; done`
const nested = (name: string): string =>
  `git init -q ${name} && (cd ${name} && git -c user.name=b -c user.email=b@b commit -q --allow-empty -m x)`

function withSubmodule({ parent, project }: Place): void {
  const library = join(parent, 'library')
  execFileSync('git', ['init', '-q', library], { env: HOST })
  git(library, 'commit', '-q', '--allow-empty', '-m', 'x')
  git(project, 'submodule', '--quiet', 'add', library, 'sub')
  git(project, 'commit', '-qm', 'with a submodule')
}

function withWorktree({ parent, project }: Place): void {
  git(project, 'worktree', 'add', '-q', join(parent, 'tree'))
}

const withoutRepository = ({ project }: Place): void => void execFileSync('rm', ['-rf', join(project, '.git')])

/** In the folder itself, beside what is there. */
const bare = `git init -q --bare x; mv x/HEAD x/config x/objects x/refs .; ${evil('config')}; git config -f config core.worktree "$PWD"`

const inWorktree = ({ parent }: Place): void =>
  void spawnSync('git', ['status'], { cwd: join(parent, 'tree'), env: HOST })

const ATTACKS: readonly Attack[] = [
  {
    name: 'a commondir that leads to settings elsewhere',
    commands: [
      `mkdir -p evil/refs && cp -r .git/objects .git/refs evil/ && cp .git/config evil/config; ${evil('evil/config')}; echo ../evil > .git/commondir`,
    ],
    aside: ['.git/commondir'],
  },
  {
    name: 'settings of the working tree, where the repository reads them',
    given: ({ project }) => void git(project, 'config', 'extensions.worktreeConfig', 'true'),
    commands: [evil('.git/config.worktree')],
  },
  {
    name: 'settings of the working tree, before the repository reads them',
    commands: [evil('.git/config.worktree')],
    afterwards: ({ project }) => void git(project, 'config', 'extensions.worktreeConfig', 'true'),
    aside: ['.git/config.worktree'],
  },
  {
    name: 'another .git in place of this one',
    commands: [`mv .git old; rm -rf .git; git init -q; ${evil('.git/config')}`],
  },
  {
    name: 'a nested repository in the index',
    commands: [`${nested('in')} && git add in; ${evil('in/.git/config')}; ${hook('in/.git/hooks')}`],
    aside: ['in/.git/config', 'in/.git/hooks'],
  },
  {
    name: 'a nested repository in an index of version 4, after a harmless command',
    commands: [
      `${nested('in')} && git add in && git update-index --index-version 4`,
      `mv in x; ${nested('in')}; ${evil('in/.git/config')}`,
    ],
    aside: ['in/.git/config'],
    moves: true,
  },
  {
    name: 'a nested repository in a split index',
    commands: [`${nested('in')} && git add in && git update-index --split-index; ${evil('in/.git/config')}`],
    aside: ['in/.git/config'],
  },
  {
    name: 'a nested repository in a nested repository',
    commands: [
      `${nested('in')}; (cd in && ${nested('deep')} && git add deep); git add in; ${evil('in/deep/.git/config')}`,
    ],
    aside: ['in/deep/.git/config'],
  },
  {
    name: 'a nested repository whose .git is a file that leads to settings in the workspace',
    commands: [
      `${nested('in')} && mv in/.git store && echo 'gitdir: ../store' > in/.git && git add in; ${evil('store/config')}`,
    ],
    aside: ['store/config'],
  },
  {
    name: 'a nested repository whose .git is a link',
    commands: [`${nested('in')} && git add in; mv in/.git store && ln -s ../store in/.git; ${evil('store/config')}`],
    aside: ['in/.git'],
  },
  {
    name: 'the settings and hooks of a submodule',
    given: withSubmodule,
    commands: [`${evil('.git/modules/sub/config')}; ${hook('.git/modules/sub/hooks')}`],
  },
  {
    name: 'a submodule, or what git keeps for it, that is moved away and made anew',
    given: withSubmodule,
    commands: [
      `mv .git/modules/sub .git/modules/old; mv .git/modules .git/old; mv sub old; ${nested('sub')}; ${evil('sub/.git/config')}`,
    ],
    aside: ['sub/.git/config'],
    moves: true,
  },
  {
    name: 'what git keeps for a working tree outside',
    given: withWorktree,
    commands: [
      `cp -r .git evil; ${evil('evil/config')}; echo ../../../evil > .git/worktrees/tree/commondir; ${evil('.git/worktrees/tree/config.worktree')}`,
      `mv .git/worktrees/tree .git/worktrees/old; mv .git/worktrees .git/old; mkdir -p .git/worktrees/tree && echo ../../../evil > .git/worktrees/tree/commondir`,
    ],
    afterwards: inWorktree,
    aside: ['.git/worktrees/tree/config.worktree'],
  },
  {
    name: 'a working tree that a command made, with settings elsewhere',
    commands: [
      `git worktree add -q tree; cp -r .git evil; ${evil('evil/config')}; echo ../../../evil > .git/worktrees/tree/commondir`,
    ],
    afterwards: ({ project }) => void spawnSync('git', ['status'], { cwd: join(project, 'tree'), env: HOST }),
    aside: ['.git/worktrees/tree/commondir'],
  },
  {
    name: 'hooks that the repository keeps among its files',
    given: ({ project }) => {
      mkdirSync(join(project, '.husky/_'), { recursive: true })
      writeFileSync(join(project, '.husky/_/pre-commit'), '#!/bin/sh\nsh .husky/pre-commit\n', { mode: 0o755 })
      writeFileSync(join(project, '.husky/pre-commit'), 'true\n')
      git(project, 'config', 'core.hooksPath', '.husky/_')
    },
    commands: [`echo 'touch MARK' > .husky/pre-commit; ${hook('.husky/_')}; mv .husky old; ${hook('.husky/_')}`],
  },
  {
    name: 'hooks that the repository keeps deeper among its files, by moving the folders above',
    given: ({ project }) => {
      mkdirSync(join(project, 'tools/git/hooks'), { recursive: true })
      writeFileSync(join(project, 'tools/git/hooks/pre-commit'), '#!/bin/sh\n', { mode: 0o755 })
      git(project, 'config', 'core.hooksPath', 'tools/git/hooks')
    },
    commands: [
      `mv tools/git tools/old; ${hook('tools/git/hooks')}`,
      `mv tools old; ${hook('tools/git/hooks')}`,
      `rm -rf tools/git; ${hook('more/hooks')}; ln -s ../more tools/git`,
      `rm -rf tools; ${hook('more/git/hooks')}; ln -s /proc/self/cwd/more tools`,
    ],
    aside: ['tools', 'tools/git', 'tools/git/hooks'],
    moves: true,
  },
  {
    name: 'hooks that git finds by a link',
    given: ({ project }) => {
      for (const folder of ['hooks', 'more']) mkdirSync(join(project, folder))
      execFileSync('rm', ['-rf', join(project, '.git/hooks')])
      symlinkSync('../hooks', join(project, '.git/hooks'))
      symlinkSync('more', join(project, '.githooks'))
      execFileSync('git', ['init', '-q', join(project, 'in')], { env: HOST })
      git(join(project, 'in'), 'config', 'core.hooksPath', '../.githooks')
    },
    commands: [
      `${hook('hooks')}; ${hook('more')}`,
      `rm .git/hooks; ${hook('.git/hooks')}; mv hooks old; ${hook('hooks')}`,
    ],
    aside: ['.git/hooks'],
    moves: true,
  },
  {
    name: 'hooks that included settings name',
    given: ({ project }) => {
      mkdirSync(join(project, 'tools/hooks'), { recursive: true })
      writeFileSync(join(project, 'tools/settings'), '[include]\n\tpath = more\n')
      writeFileSync(join(project, 'tools/more'), '[core]\n\thooksPath = tools/hooks\n')
      git(project, 'config', 'include.path', '../tools/settings')
    },
    commands: [`${hook('tools/hooks')}; ${evil('tools/more')}`],
  },
  {
    name: 'settings that the repository includes from deeper among its files, by moving the folders above',
    given: ({ project }) => {
      mkdirSync(join(project, 'tools/git'), { recursive: true })
      writeFileSync(join(project, 'tools/git/settings'), '')
      git(project, 'config', 'include.path', '../tools/git/settings')
    },
    commands: [`mv tools/git tools/old; mv tools old; mkdir -p tools/git; ${evil('tools/git/settings')}`],
    aside: ['tools/git/settings'],
    moves: true,
  },
  {
    name: 'hooks, by moving a folder that holds a nested repository',
    given: ({ project }) => {
      mkdirSync(join(project, 'deps'))
      execFileSync('git', ['init', '-q', join(project, 'deps/in')], { env: HOST })
      git(join(project, 'deps/in'), 'commit', '-q', '--allow-empty', '-m', 'x')
      git(project, 'add', '-A')
    },
    commands: [`mv deps old; mkdir deps; cp -r old/in deps/in; ${evil('deps/in/.git/config')}`],
    aside: ['deps/in/.git/config'],
    moves: true,
  },
  {
    name: 'settings that the repository includes from its files',
    given: ({ project }) => {
      writeFileSync(join(project, '.gitconfig'), '')
      git(project, 'config', 'include.path', '../.gitconfig')
    },
    commands: [`${evil('.gitconfig')}; mv .gitconfig x; ${evil('.gitconfig')}`],
  },
  {
    name: 'settings and hooks elsewhere in .git that its settings name',
    given: ({ project }) => {
      mkdirSync(join(project, '.git/own'))
      writeFileSync(join(project, '.git/more'), '')
      git(project, 'config', 'include.path', 'more')
      git(project, 'config', 'core.hooksPath', '.git/own')
    },
    commands: [`${evil('.git/more')}; ${hook('.git/own')}`],
  },
  {
    name: 'included settings that were not there',
    given: ({ project }) => void git(project, 'config', 'include.path', '../.gitconfig'),
    commands: [evil('.gitconfig')],
    aside: ['.gitconfig'],
  },
  {
    name: 'a repository where there was none',
    given: withoutRepository,
    commands: [`git init -q; git add -A; ${evil('.git/config')}; ${hook('.git/hooks')}`],
    aside: ['.git/config', '.git/hooks'],
  },
  {
    name: 'a bare repository where there was none',
    given: withoutRepository,
    commands: [`git init -q --bare .; ${evil('config')}; git config core.worktree "$PWD"`],
    aside: ['config'],
  },
  {
    name: 'a new bare repository whose folders are links',
    given: withoutRepository,
    commands: [`${bare}; for each in objects refs; do mv $each x; ln -s x/$each $each; done`],
    aside: ['config'],
  },
  {
    name: 'a bare repository beside a .git that git does not take for one any more',
    commands: [`${bare}; rm .git/HEAD`],
    aside: ['config'],
  },
  {
    name: 'a new repository that names another place for its files',
    given: withoutRepository,
    commands: [
      `git init -q; echo hid > .git/info/exclude; ${nested('in')}; git add in; mkdir hid; mv in hid/in; git config core.worktree ../hid; ${evil('hid/in/.git/config')}`,
    ],
    aside: ['.git/config'],
  },
  {
    name: 'a nested repository in a nested repository whose files are said to be elsewhere',
    commands: [
      `echo hid > .git/info/exclude; ${nested('in')}; (cd in && ${nested('deep')} && git add deep); mkdir hid; mv in/deep hid/deep; git -C in config core.worktree ../../hid; git add in; ${evil('hid/deep/.git/config')}`,
    ],
    aside: ['in/.git/config'],
  },
  {
    name: 'a nested repository whose .git is a file that leads over a link and back',
    commands: [
      `${nested('in')} && mv in/.git store; mkdir -p deep/folder; ln -s deep/folder link; cp -r store deep; echo 'gitdir: ../link/../store' > in/.git; git add in; ${evil('deep/store/config')}`,
    ],
    aside: ['in/.git'],
  },
  {
    name: 'a nested repository whose .git is a file with a long end',
    commands: [
      `${nested('in')} && mv in/.git store; (printf 'gitdir: ../store'; yes '' | head -n 500000) > in/.git; git add in; ${evil('store/config')}`,
    ],
    aside: ['in/.git'],
  },
  {
    name: 'a nested repository whose .git is a file with bytes that are no text',
    commands: [
      `real=$(printf 'st\\377'); shown=$(printf 'st\\357\\277\\275'); ${nested('in')} && mv in/.git "$real"; cp -r "$real" "$shown"; echo "gitdir: ../$real" > in/.git; git add in; ${evil('"$real"/config')}`,
    ],
    aside: ['in/.git'],
  },
  {
    name: 'a nested repository whose name is no text',
    commands: [
      `name=$(printf 'in\\377'); echo 'in*' > .git/info/exclude; ${nested('"$name"')}; git add -f "$name"; ${evil('"$name"/.git/config')}`,
    ],
    aside: ['.git/index'],
  },
  {
    name: 'a working tree that a command made, with a blank before what leads to its settings',
    commands: [
      `git worktree add -q tree; cp -r .git evil; ${evil('evil/config')}; mkdir evil/x; mv evil .git/worktrees/tree; cd .git/worktrees/tree; ln -s evil/x ' ..'; printf ' ../..' > commondir`,
    ],
    afterwards: ({ project }) => void spawnSync('git', ['status'], { cwd: join(project, 'tree'), env: HOST }),
    aside: ['.git/worktrees/tree/commondir'],
  },
  {
    name: 'settings of one of more nested repositories than can be guarded',
    given: ({ project }) => {
      execFileSync('git', ['init', '-q', join(project, 'n0')], { env: HOST })
      git(join(project, 'n0'), 'commit', '-q', '--allow-empty', '-m', 'x')
      execFileSync('sh', ['-c', 'for i in $(seq 1 70); do cp -r n0 n$i; done'], { cwd: project })
      git(project, 'add', '-A')
    },
    commands: [evil('n9/.git/config')],
    aside: ['n9/.git/config'],
  },
  {
    name: 'what git keeps for a working tree outside, beside more of them than can be guarded',
    given: withWorktree,
    commands: [
      `cp -r .git evil; ${evil('evil/config')}; for i in $(seq 150); do mkdir .git/worktrees/a$i; for file in commondir gitdir; do echo ../.. > .git/worktrees/a$i/$file; done; done`,
      'echo ../../../evil > .git/worktrees/tree/commondir',
    ],
    afterwards: inWorktree,
    aside: ['.git/worktrees/tree/commondir'],
  },
  {
    name: 'a repository whose .git is a link into the folder',
    given: ({ project }) => {
      renameSync(join(project, '.git'), join(project, 'store'))
      symlinkSync('store', join(project, '.git'))
    },
    commands: [
      `${evil('.git/config')}; ${hook('store/hooks')}; echo ../evil > store/commondir`,
      `cp -r store evil; ${evil('evil/config')}; rm .git; ln -s evil .git; rm .git; ln -s evil .git`,
    ],
    aside: ['.git', 'store/commondir'],
    moves: true,
  },
  {
    name: 'a .git file of a nested repository beside more of them than can be guarded',
    commands: [
      `${nested('n0')}; for i in $(seq 1 70); do cp -r n0 n$i; done; mv n0/.git store; echo 'gitdir: ../store' > n0/.git; mkdir z z/sub; cp n0/.git z; for each in n*; do git add $each; done; echo "160000 $(git -C n1 rev-parse HEAD) 0	z" | git update-index --index-info`,
      `cp -r store z/evil; ${evil('z/evil/config')}; echo 'gitdir: sub/../evil' > z/.git`,
    ],
    aside: ['z/.git'],
  },
  {
    name: 'more working trees than anyone has, which other boxes would wait for',
    commands: [`mkdir .git/worktrees; cd .git/worktrees; mkdir $(seq 1001)`],
    aside: ['.git/worktrees'],
  },
  {
    name: 'indexes that are larger together than one may be',
    commands: [`for i in 1 2; do truncate -s 200M .git/sharedindex.$i; done; touch b; git add b`],
    aside: ['.git/index'],
  },
  {
    name: 'an index of more nested repositories than anyone has',
    commands: [`seq 5001 | sed "s/.*/160000 $(printf %040d 1) 0\tn&/" | git update-index --index-info`],
    aside: ['.git/index'],
  },
  {
    name: 'hooks among its files and included settings, through the files API',
    given: ({ project }) => {
      mkdirSync(join(project, '.husky'))
      writeFileSync(join(project, '.husky/pre-commit'), '#!/bin/sh\n', { mode: 0o755 })
      git(project, 'config', 'core.hooksPath', '.husky')
      git(project, 'config', 'include.path', '../.gitconfig')
    },
    commands: [],
    writes: { '.husky/pre-commit': '#!/bin/sh\ntouch MARK\n', '.gitconfig': EVIL },
    refused: ['.husky/pre-commit', '.gitconfig'],
  },
  {
    name: 'settings of a repository elsewhere in the folder, through the files API',
    given: ({ project }) => void git(project, 'init', '-q', '--separate-git-dir=meta'),
    commands: [],
    writes: { 'meta/config': EVIL, 'meta/commondir': '../evil' },
    refused: ['meta/config'],
  },
  {
    name: 'a new bare repository, through the files API',
    given: withoutRepository,
    commands: [],
    writes: { config: EVIL, HEAD: 'ref: refs/heads/main\n', 'refs/a': '', 'objects/a': '' },
  },
]

describe('git on the host runs nothing of a box', { skip, concurrency: 2 }, () => {
  let runner: TestRunner
  let root: string
  const ends: (() => unknown)[] = []
  const suite = { after: (end: () => unknown): void => void ends.push(end) }
  before(async () => {
    root = tempFolder(suite, 'repositories')
    runner = await inProcess(suite, { allowWorkspace: [root] })
  })
  after(async () => {
    for (const end of ends) await end()
  })

  async function place(id: string, given: Attack['given']): Promise<Place> {
    const parent = join(root, id)
    const [project, mark] = [join(parent, 'project'), join(parent, 'mark')]
    mkdirSync(project, { recursive: true })
    writeFileSync(join(project, 'a.txt'), 'a')
    git(project, 'init', '-q')
    git(project, 'add', '-A')
    git(project, 'commit', '-qm', 'first')
    given?.({ parent, project, mark })
    await runner.box({ id, workspace: project })
    return { parent, project, mark }
  }

  for (const [i, { name, ...attack }] of ATTACKS.entries())
    test(`by ${name}`, async () => {
      const { given, commands, writes = {}, refused = [], afterwards, aside = [], moves = false } = attack
      const at = await place(`b${i}`, given)
      const found = new Set<string>()
      for (const command of commands) {
        const { exec } = await runner.run(`b${i}`, command.replaceAll('MARK', at.mark))
        for (const { id, evidence } of exec.exit?.diagnostics ?? [])
          if (id === 'set_aside') for (const each of evidence) found.add(each)
      }
      const refusals: string[] = []
      for (const [path, content] of Object.entries(writes)) {
        const bytes = Buffer.from(content.replaceAll('MARK', at.mark).replaceAll('PROJECT', at.project))
        await runner.client.writeFile(`b${i}`, path, bytes).catch((thrown: unknown) => {
          assert.ok(isFault(thrown) && thrown.category === 'forbidden', String(thrown))
          refusals.push(path)
        })
      }
      assert.deepEqual(refusals, refused)
      for (const args of [
        ['status'],
        ['diff'],
        ['log', '-p'],
        ['add', '-A'],
        ['commit', '-m', 'mine', '--allow-empty'],
        ['status'],
      ])
        spawnSync('git', [...WHO, ...args], { cwd: at.project, env: HOST })
      afterwards?.(at)
      spawnSync('git', [...WHO, 'status'], { cwd: at.project, env: HOST })
      assert.equal(existsSync(at.mark), false, 'git ran what the command wrote')
      if (!moves || found.size > 0) assert.deepEqual([...found].toSorted(), [...aside].toSorted())
    })

  test('and a command that plants a commondir again and again can write nothing below .git any more', async () => {
    const { project, mark } = await place('loop', undefined)
    const script = `cp -r .git evil; ${evil('evil/config')}; while [ ! -e stop ]; do echo ../evil > .git/commondir; done 2>/dev/null; touch .git/x || echo read-only`
    await runner.call('POST', 'boxes/loop/exec', { execId: 'e1', shell: script.replaceAll('MARK', mark) })
    await until(
      () => readdirSync(join(project, '.git')).filter((name) => name.startsWith('commondir')),
      (names) => names.length > 0 && !names.includes('commondir'),
    )
    // From the moment on at which .git is read-only, nothing appears.
    await until(
      async () => {
        const exec = await runner.call('POST', 'boxes/loop/exec', { execId: `probe-${Math.random()}`, shell: 'true' })
        const mounts = readFileSync(`/proc/${await sandboxOf('loop', 'e1')}/mountinfo`, 'utf8')
        return (
          exec.status === 201 && mounts.split('\n').findLast((line) => line.split(' ')[4] === join(project, '.git'))
        )
      },
      (line) => typeof line === 'string' && line.split(' ')[5]?.startsWith('ro') === true,
    )
    await until(
      () => existsSync(join(project, '.git/commondir')),
      (is) => !is,
    )
    git(project, 'status')
    writeFileSync(join(project, 'stop'), '')
    const { exit } = await runner.client.waitExec('loop', 'e1')
    assert.match((await runner.client.execOutput('loop', 'e1', 'stdout')).toString(), /read-only/)
    assert.ok(exit?.diagnostics.some(({ id }) => id === 'set_aside'))
    assert.equal(existsSync(mark), false)
  })

  test('and the record names the files that a command changed for other programs of the user', async () => {
    const { project } = await place('tools', ({ project: folder }) => {
      mkdirSync(join(folder, '.vscode'))
      for (const name of ['.vscode/settings.json', '.npmrc']) writeFileSync(join(folder, name), '{}')
    })
    const changed = async (command: string): Promise<readonly string[]> => {
      const { exec } = await runner.run('tools', command)
      return exec.exit?.diagnostics.find(({ id }) => id === 'may_run')?.evidence ?? []
    }
    assert.deepEqual(await changed('cat .npmrc; touch package.json'), [])
    assert.deepEqual(await changed('echo x > .vscode/settings.json; touch .envrc; rm .npmrc'), [
      '.envrc',
      '.vscode/settings.json',
    ])
    assert.deepEqual(await changed('cat .envrc'), [])
    assert.equal(existsSync(join(project, '.envrc')), true)
  })

  async function sandboxOf(box: string, execId: string): Promise<number> {
    const status = readFileSync(join(runner.stateDir, 'boxes/default', box, 'execs', execId, 'status'), 'latin1')
    return Number(/"child-pid": (\d+)/.exec(status)?.[1])
  }

  test('while commits, branches, stashes, rebases, working trees, submodules, clones and gc work in it as ever', async () => {
    const { project } = await place('work', (at) => {
      withSubmodule(at)
      withWorktree(at)
      git(at.project, 'worktree', 'add', '-q', '.trees/inside')
      writeFileSync(join(at.project, '.gitignore'), '.trees\n')
    })
    const script = `set -e
      export GIT_AUTHOR_NAME=box GIT_AUTHOR_EMAIL=b@b GIT_COMMITTER_NAME=box GIT_COMMITTER_EMAIL=b@b
      git add -A; git commit -qm one; git switch -qc topic; echo b > b.txt; git add b.txt; git commit -qm two
      echo c >> b.txt; git stash -q; git stash pop -q; git commit -qam three; git rebase -q master~1 || git rebase -q main~1; git tag v1
      (cd sub && echo s > s.txt && git add s.txt && git commit -qm sub); git add sub; git commit -qm 'sub moved'
      (cd .trees/inside && echo t > t.txt && git add t.txt && git commit -qm tree)
      git worktree add -q .trees/new; (cd .trees/new && echo n > n.txt && git add n.txt && git commit -qm new); git worktree remove .trees/new
      git clone -q . .trees/clone; ${nested('.trees/other')}; git switch -q -; git merge -q topic; git reset -q --hard; git clean -fdq
      git gc -q; git fsck; git status --short; git log --oneline | wc -l`
    const { exec, stdout, stderr } = await runner.run('work', script)
    assert.equal(exec.exit?.code, 0, stdout + stderr)
    assert.deepEqual(exec.exit?.diagnostics, [])
    assert.equal(git(project, 'status', '--short'), '')
    git(project, 'fsck')
    git(dirname(project), '-C', 'tree', 'status')
    for (const file of ['commondir', 'config.worktree']) assert.equal(existsSync(join(project, '.git', file)), false)
  })
})
