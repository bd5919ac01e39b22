/** The documentation lists every call of the runner. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { RUNNER_ROUTES } from '../src/contract/routes.ts'

test('the calls in the documentation of the remote runner are the calls that are served', () => {
  const page = readFileSync(new URL('../../../docs/how-to/run-a-remote-runner.md', import.meta.url), 'utf8')
  const shown = Array.from(page.matchAll(/^\| `(?:GET|POST|PUT|DELETE) .+$/gm), ([line]) => line)
  const served = Object.values(RUNNER_ROUTES).map(
    ({ method, path, summary }) => `| \`${method.toUpperCase()} ${path.replace('+}', '}')}\` | ${summary} |`,
  )
  assert.deepEqual(shown, served)
})
