/** The steps of `npm run check` and `npm test`: what each runs, in which order, and one line about each at the end. */
import { globSync, readdirSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { environment, root, say, step } from './setup.mjs'

/** Tests directly in `packages/x/test` are fast; tests in a `system` folder start processes and put load on them. */
const UNIT = ['packages/*/test/*.test.ts', 'packages/*/test/regressions/*.test.ts', 'test/*.test.ts']
const SYSTEM = ['packages/*/test/system/*.test.ts', 'e2e/*/*.test.ts', 'sim/test/*.test.ts']

export const checkSteps = () => [
  { name: 'format', run: () => step('oxfmt', ['--check']) },
  { name: 'lint', run: () => step('oxlint', ['--type-aware', '--deny-warnings', '--quiet']) },
  { name: 'types', run: () => step('tsc', ['--noEmit', '-p', '.']) },
  { name: 'types of the console', run: () => step('tsc', ['--noEmit', '-p', 'packages/console']) }, // it knows a browser
]

export const unitTests = (node) => ({ name: 'unit tests', run: () => nodeTest(node, UNIT) })
export const systemTests = (node) => ({ name: 'system tests', run: () => nodeTest(node, SYSTEM) })

export function runSteps(steps, notes = []) {
  const results = []
  for (const { name, run } of steps) {
    const from = performance.now()
    process.stderr.write(`\n── ${name}\n`)
    const code = run()
    results.push({ name, code, seconds: (performance.now() - from) / 1000 })
    if (code !== 0) break
  }
  process.stderr.write('\n')
  for (const { name, code, seconds } of results)
    process.stderr.write(`${code === 0 ? 'ok  ' : 'FAIL'} ${name} (${seconds.toFixed(1)} s)\n`)
  for (const note of notes) process.stderr.write(`note: some tests were skipped: ${note}\n`)
  return results.some((result) => result.code !== 0) ? 1 : 0
}

// ---- details ----

// More files at a time than there are cores: most files spend part of their time waiting for child processes.
const LANES = availableParallelism() + 2

/** Files that take longest. They start first, so none of them runs on alone when all others are done. */
const FIRST = ['e2e/install/packages.test.ts', 'sim/test/simulation.test.ts']

const TEST_FLAGS = [
  '--test',
  '--test-timeout=240000',
  '--import=./scripts/test-file.mjs', // a file must end, and leave nothing behind
  '--test-reporter=./scripts/report.mjs',
  '--test-reporter-destination=stdout',
]

function nodeTest(node, patterns) {
  // Given a folder, `--test` runs helper files as tests too, so we list the files. Each file gets its own process.
  const only = process.argv.slice(2).filter((argument) => !argument.startsWith('-'))
  const found = patterns.flatMap((pattern) => globSync(pattern, { cwd: root })).sort()
  const files = [...FIRST.filter((file) => found.includes(file)), ...found.filter((file) => !FIRST.includes(file))]
  const wanted = only.length === 0 ? files : files.filter((file) => only.some((part) => file.includes(part)))
  if (wanted.length === 0) return 0
  const own = `bf-${Math.random().toString(36).slice(2, 5)}` // short: the path of a Unix socket has 107 bytes
  const env = { ...environment(), BREAKFALL_TEST_PREFIX: own }
  const code = step(node, [...TEST_FLAGS, `--test-concurrency=${LANES}`, ...wanted], { env })
  const left = readdirSync(tmpdir()).filter((name) => name.startsWith(own))
  for (const name of left) rmSync(join(tmpdir(), name), { recursive: true, force: true, maxRetries: 5 })
  if (left.length > 0) say(`the tests left ${left.length} folders in ${tmpdir()}: ${left.slice(0, 8).join(', ')}`)
  return left.length > 0 ? 1 : code
}
