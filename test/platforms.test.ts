/** What differs between operating systems stays in one file, which docs/platforms.md describes. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root, sources } from './sources.ts'

const PLATFORM = 'packages/supervisor/src/platform.ts'

/** Texts that other programs read: a shell, Perl, bubblewrap. */
const PROC_ELSEWHERE: Readonly<Record<string, string>> = {
  'packages/supervisor/src/reaper.ts': 'a shell script that outlives this process',
  'packages/runner/src/exec/keeper.ts': 'a shell script that runs outside the sandbox',
  'packages/runner/src/isolation/shared-network.ts': 'a command that runs in the sandbox',
  'packages/runner/src/isolation/remount.ts': 'a Perl script that enters the sandbox',
  'packages/runner/src/isolation/bwrap-args.ts': 'arguments of bubblewrap',
  'packages/runner/src/box/guard-watch.ts': 'a mount of a sandbox',
  'packages/runner/src/isolation/mount-layout.ts': 'the folders of a sandbox',
  'packages/runner/src/isolation/host-layout.ts': 'the files that a sandbox sees empty',
  'packages/runner/src/checkpoint/git-command.ts': 'arguments of bubblewrap',
  'packages/cli/src/commands/doctor/machine.ts': 'arguments of bubblewrap',
  'packages/cli/src/demo-setup/demo-setup.ts': 'arguments of bubblewrap',
}

const SYSTEM_ELSEWHERE: Readonly<Record<string, string>> = {
  'packages/supervisor/src/preflight.ts': 'reads whether a program is made for this system',
  'packages/cli/src/process/signals.ts':
    'the first file of the program: it asks whether a process lives, and ends itself',
  'packages/cli/src/commands/doctor/machine.ts': 'says what this system lacks',
  'packages/cli/src/console/open.ts': 'knows how a system opens a browser',
}

/** Lines of code with their strings, without comments. */
const linesOf = (text: string): readonly string[] =>
  text
    .split('\n')
    .filter((line) => !/^\s*(?:\/\*\*|\*|\/\/)/.test(line))
    .map((line) => line.replace(/\s\/\/ .*$/, ''))

const mentionsProc = (text: string): boolean => linesOf(text).some((line) => /\/proc(?![\w-])/.test(line))
const asksSystem = (code: string): boolean => /(?<![#.\w])process\.(?:kill\(|platform\b)/.test(code)

const files = sources('packages/*/src/**/*.{ts,tsx}')

function onlyIn(found: readonly string[], elsewhere: Readonly<Record<string, string>>): void {
  assert.ok(found.includes(PLATFORM))
  const others = found.filter((path) => path !== PLATFORM)
  assert.deepEqual(
    others.filter((path) => elsewhere[path] === undefined),
    [],
    `ask ${PLATFORM} instead`,
  )
  assert.deepEqual(
    Object.keys(elsewhere).filter((path) => !others.includes(path)),
    [],
    'this list has nothing that is gone',
  )
}

test('only one file reads /proc, besides texts for other programs', () => {
  onlyIn(
    files.filter(({ text }) => mentionsProc(text)).map(({ path }) => path),
    PROC_ELSEWHERE,
  )
})

test('only one file sends signals and asks which system this is, besides the few that have a reason', () => {
  onlyIn(
    files.filter(({ code }) => asksSystem(code)).map(({ path }) => path),
    SYSTEM_ELSEWHERE,
  )
  for (const { path, code } of files) assert.doesNotMatch(code, /process\.kill\(-/, path)
})

test('docs/platforms.md names every function of that file', () => {
  const page = readFileSync(join(root, 'docs/platforms.md'), 'utf8')
  assert.ok(page.includes(PLATFORM))
  const text = readFileSync(join(root, PLATFORM), 'utf8')
  const names = Array.from(text.matchAll(/^export (?:async )?(?:function|const) (\w+)/gm), ([, name = '']) => name)
  assert.ok(names.length > 20)
  assert.deepEqual(
    names.filter((name) => !page.includes(`\`${name}\``)),
    [],
  )
})

test('the check finds a path of /proc and a signal to a group, and not a comment or the word process', () => {
  for (const text of ["read('/proc/1/stat')", 'x = `/proc/${pid}/fd`', "['/proc']"]) assert.ok(mentionsProc(text), text)
  for (const text of ['// as in /proc', ' * I1  /proc is read-only', "import '../process/x.ts'", 'a() // see /proc'])
    assert.ok(!mentionsProc(text), text)
  assert.ok(asksSystem('process.kill(-pid, 9)'))
  assert.ok(!asksSystem('this.#process.kill()'))
})
