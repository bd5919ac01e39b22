/** Signals and the question which system this is stay in a few files, which docs/platforms.md names. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root, sources } from './sources.ts'

/** Besides the process tables. None of them signals a process group. */
const OTHERS: Readonly<Record<string, string>> = {
  'packages/supervisor/src/preflight.ts': 'reads whether a program is made for this system',
  'packages/runner/src/isolation/shared-network.ts': 'ends a process that it started',
  'packages/runner/src/isolation/cgroup.ts': 'ends what is in a control group',
  'packages/daemon/src/runner/local-runner.ts': 'ends a runner by its pid',
  'packages/cli/src/process/signals.ts': 'asks whether a process lives, and ends itself',
  'packages/cli/src/demo/demo-daemon.ts': 'kills the daemon of the demo, on request',
  'packages/cli/src/commands/uninstall.ts': 'ends a runner by its pid',
  'packages/cli/src/doctor/machine.ts': 'says what this system lacks',
  'packages/cli/src/console/browser.ts': 'knows how a system opens a browser',
}
const TABLES = ['packages/supervisor/src/process-table.ts', 'packages/runner/src/exec/process-table.ts']

test('signals and platforms are asked for in the process tables, and in the few files that have a reason', () => {
  const found = sources('packages/*/src/**/*.ts')
    .filter(({ code }) => /(?<![#.\w])process\.(?:kill\(|platform\b)/.test(code))
    .map(({ path }) => path)
  assert.deepEqual(
    found.filter((path) => !TABLES.includes(path) && OTHERS[path] === undefined),
    [],
    'use the process table of the package',
  )
  assert.deepEqual(
    [...TABLES, ...Object.keys(OTHERS)].filter((path) => !found.includes(path)),
    [],
    'this list has nothing that is gone',
  )
  const page = readFileSync(join(root, 'docs/platforms.md'), 'utf8')
  for (const path of TABLES) assert.ok(page.includes(path), path)
})
