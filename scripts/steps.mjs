/** The steps behind `npm run check` and `npm test`: what each runs, in which order, and one line about each at the end. */
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { environment, root, step } from './setup.mjs'

/** Tests beside a package (`packages/x/test/*.test.ts`) are fast; those in a `system` folder start processes and loads. */
const UNIT = ['packages/*/test/*.test.ts', 'packages/*/test/regressions/*.test.ts', 'test/*.test.ts']
const SYSTEM = ['packages/*/test/system/*.test.ts', 'e2e/*/*.test.ts']

export const checkSteps = () => [
  { name: 'format', run: () => step('oxfmt', ['--check']) },
  { name: 'lint', run: () => step('oxlint', ['--type-aware', '--deny-warnings', '--quiet']) },
  { name: 'types', run: () => step('tsc', ['--noEmit', '-p', '.']) },
]

export const unitTests = (node) => ({ name: 'unit tests', run: () => nodeTest(node, UNIT) })
export const systemTests = (node) => ({ name: 'system tests', run: () => systemTest(node) })

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

/**
 * Whole systems, some at a time. A file that fails is run once more, alone, and that is said: with all cores busy a bound can
 * be missed that holds for each by itself. What fails twice has failed.
 */
function systemTest(node) {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-test-'))
  const list = join(folder, 'failed')
  try {
    if (nodeTest(node, SYSTEM, { env: { ...environment(), BREAKFALL_FAILED_FILES: list } }) === 0) return 0
    const failed = existsSync(list)
      ? readFileSync(list, 'utf8')
          .split('\n')
          .filter((file) => file !== '')
      : []
    if (failed.length === 0 || failed.length > AGAIN_MAX) return 1
    process.stderr.write(
      `\nfailed beside another; once more, alone:\n${failed.map((file) => `  ${file}`).join('\n')}\n`,
    )
    return step(node, [...TEST_FLAGS, '--test-concurrency=1', ...failed])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const AGAIN_MAX = 4 // more than that is no bad luck

// One file more at a time than there are cores: most of them wait for processes of their own now and then.
const LANES = availableParallelism() + 1

const TEST_FLAGS = [
  '--test',
  '--test-timeout=240000',
  '--import=./scripts/deadline.mjs', // of a file: one that does not end is a failure, not a wait without an end
  '--test-reporter=./scripts/report.mjs',
  '--test-reporter-destination=stdout',
]

function nodeTest(node, patterns, options = {}) {
  // `--test` given a folder also runs helpers as tests, so the files are named. Every file is its own process.
  const only = process.argv.slice(2).filter((argument) => !argument.startsWith('-'))
  const files = patterns.flatMap((pattern) => globSync(pattern, { cwd: root })).sort()
  const wanted = only.length === 0 ? files : files.filter((file) => only.some((part) => file.includes(part)))
  if (wanted.length === 0) return 0
  return step(node, [...TEST_FLAGS, `--test-concurrency=${LANES}`, ...wanted], options)
}
