import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { tempFolder } from '../../../test/kit/folder.ts'
import { harmlessPart, nestedIn, pathInWorkspace } from '../src/box/git-files.ts'
import { findProgram } from '../src/isolation/find-program.ts'

const skip = findProgram('git', '/usr/bin:/bin') === null && 'git is not installed'

test('a .git file of empty lines is read in one go: other boxes wait meanwhile', () => {
  const program = `
    import { pathInWorkspace } from ${JSON.stringify(new URL('../src/box/git-files.ts', import.meta.url).href)}
    console.log(pathInWorkspace('gitdir: ' + '\\n'.repeat(250_000) + 'x', '/', [])[0].length)`
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], { timeout: 10_000 })
  assert.equal(stdout.toString(), '250001\n')
})

describe('the nested repositories of an index', { skip }, () => {
  for (const [what, args, hashBytes] of [
    ['version 2', [], 20],
    ['version 4', ['update-index', '--index-version', '4'], 20],
    ['a split index', ['update-index', '--split-index'], 20],
    ['long hashes', [], 32],
  ] as const)
    test(`are read from ${what}`, (t) => {
      const folder = tempFolder(t)
      const git = (...words: readonly string[]): void =>
        void execFileSync('git', ['-C', folder, ...words], { env: { PATH: process.env['PATH'], HOME: '/nonexistent' } })
      git('init', '-q', `--object-format=${hashBytes === 20 ? 'sha1' : 'sha256'}`)
      for (const name of ['a.txt', 'b.txt', 'längerer Name.txt']) writeFileSync(join(folder, name), name)
      git('add', '-A')
      const oid = 'a'.repeat(hashBytes * 2)
      for (const path of ['b/in', 'bé']) git('update-index', '--add', '--cacheinfo', `160000,${oid},${path}`)
      git('update-index', '--add', '--cacheinfo', `100644,${oid},later`)
      if (args.length > 0) git(...args)
      const read = (name: string): Buffer => readFileSync(join(folder, '.git', name))
      const found = nestedIn(read('index'), hashBytes, read) ?? []
      for (const path of ['b/in', 'bé']) assert.ok(found.includes(path), found.join())
      if (what !== 'a split index') assert.equal(found.length, 2)
    })

  test('are found where git reads them: by the length in the flags, and where its threads start', () => {
    const entry = (path: string, mode: number, length = path.length): Buffer => {
      const bytes = Buffer.alloc(Math.ceil((63 + path.length) / 8) * 8)
      bytes.writeUInt32BE(mode, 24)
      bytes.writeUInt16BE(length, 60)
      bytes.write(path, 62, 'latin1')
      return bytes
    }
    const head = (count: number): Buffer => Buffer.from([...Buffer.from('DIRC'), 0, 0, 0, 2, 0, 0, 0, count])
    const file = entry('a\0bbbbbbbbbbbbbb', 0o100_644)
    const found = nestedIn(
      Buffer.concat([head(2), file, entry('in', 0o160_755), Buffer.alloc(40)]),
      20,
      () => undefined,
    )
    assert.deepEqual(found, ['in'])
    const hidden = entry('hidden', 0o160_000)
    const table = Buffer.alloc(20)
    table.write('IEOT')
    for (const [i, value] of [12, 1, 12 + file.length, 1].entries()) table.writeUInt32BE(value, 4 + i * 4)
    const threads = Buffer.concat([head(1), file, hidden, table, Buffer.alloc(40)])
    assert.deepEqual(
      nestedIn(threads, 20, () => undefined),
      ['hidden'],
    )
  })

  test('are not looked for without end in an index that sends its reader around', () => {
    const table = Buffer.alloc(8 + 4 + 8 * 500)
    table.write('IEOT')
    table.writeUInt32BE(table.length - 8, 4)
    for (let i = 0; i < 500; i += 1) {
      table.writeUInt32BE(12, 12 + i * 8)
      table.writeUInt32BE(0xffff_ffff, 16 + i * 8)
    }
    const head = Buffer.from([...Buffer.from('DIRC'), 0, 0, 0, 2, 0, 0, 0, 1])
    assert.equal(
      nestedIn(Buffer.concat([head, Buffer.alloc(64_000), table]), 20, () => undefined),
      undefined,
    )
  })

  test('are none for what is no index, and for one that is cut off', () => {
    assert.deepEqual(
      nestedIn(Buffer.from('no index'), 20, () => undefined),
      [],
    )
    const cut = Buffer.concat([Buffer.from('DIRC'), Buffer.from([0, 0, 0, 2, 0, 0, 0, 9, 1, 2, 3])])
    assert.deepEqual(
      nestedIn(cut, 20, () => undefined),
      [],
    )
  })
})

test('what git clone and git init write is harmless', () => {
  const text =
    '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n[remote "origin"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n; a comment\n[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n'
  assert.deepEqual(harmlessPart(text).removed, [])
})

test('of a configuration only harmless settings stay, however the others are written', () => {
  for (const [text, removed] of [
    ['[core]\n\tfsmonitor = evil', 'core.fsmonitor'],
    ['[CORE]\n\tFsMonitor = evil', 'core.fsmonitor'],
    ['[core] fsmonitor = evil', 'an unusual line'],
    ['[core]\n\tbare = false \\\n\tfsmonitor = evil', 'an unusual line'],
    ['[include]\n\tpath = evil', 'include.path'],
    ['[filter "x"]\n\tclean = evil', 'filter.x.clean'],
    ['[remote "x"]\n\turl = ext::sh -c evil', 'remote.x.url'],
    ['[remote "x"]\n\tuploadpack = evil', 'remote.x.uploadpack'],
    ['[submodule "x"]\n\tupdate = !evil', 'submodule.x.update'],
    ['[alias]\n\tst = !evil', 'alias.st'],
    ['[core]\n\tworktree = ../evil', 'core.worktree'],
    ['[core]\n\tsparseCheckout = true', 'core.sparsecheckout'],
  ] as const) {
    const part = harmlessPart(`[user]\n\tname = a\n${text}\n`)
    assert.ok(part.removed.includes(removed), `${text}: ${part.removed.join()}`)
    assert.ok(!part.text.includes('evil'), part.text)
    assert.deepEqual(harmlessPart(part.text).removed, [])
  }
})

test('a path of git is followed in the workspace only', () => {
  assert.deepEqual(pathInWorkspace('gitdir: ../.git/modules/a\n', '/w/p', ['sub']), ['.git', 'modules', 'a'])
  assert.deepEqual(pathInWorkspace('gitdir: /w/p/x', '/w/p', ['sub']), ['x'])
  const unclear = ['gitdir: ../link/../x', '/w/p/link/../x', 'gitdir: ../\uFFFD', 'gitdir: \n']
  for (const text of ['gitdir: /w/other', '../../..', '/w/pp/x', ...unclear])
    assert.equal(pathInWorkspace(text, '/w/p', ['sub']), undefined)
})
