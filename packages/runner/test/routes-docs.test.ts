/** The page that shows the runner's calls has all of them, as the table that is served has them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { RUNNER_ROUTES } from '../src/routes.ts'

test('the calls on the page of the remote runner are those that are served', () => {
  const page = readFileSync(new URL('../../../docs/how-to/run-a-remote-runner.md', import.meta.url), 'utf8')
  const shown = Array.from(page.matchAll(/^\| `(?:GET|POST|PUT|DELETE) .+$/gm), ([line]) => line)
  const served = Object.values(RUNNER_ROUTES).map(
    ({ method, path, summary }) => `| \`${method.toUpperCase()} ${path.replace('+}', '}')}\` | ${summary} |`,
  )
  assert.deepEqual(shown, served)
})
