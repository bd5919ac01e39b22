/** The universe itself: its parts are no kinder than the real ones, it is the same again for the same seed, and nothing leaks out. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { LIMIT } from '../../test/kit/wait.ts'

const SIM = fileURLToPath(new URL('..', import.meta.url))
/** New seeds in each run; with a number in this variable, for that long. */
const SECONDS = process.env['BREAKFALL_SIM_SECONDS'] ?? '20'

test('the simulated stores pass the suite that every store must pass', LIMIT, async () => {
  const { code, output } = await run('conformance/store.ts')
  assert.equal(code, 0, output)
  assert.match(output, /pass [5-9]\d\b/) // a suite that was not found would pass, too
})

test('the simulated runner passes the suite that the real one passes', LIMIT, async () => {
  const { code, output } = await run('conformance/runner.ts')
  assert.equal(code, 0, output)
  assert.match(output, /pass 8\b/)
})

test('a seed gives the same trace, alone, after others and in another process', LIMIT, async () => {
  const hashes = async (...args: string[]): Promise<string[]> => {
    const { output } = await run('main.ts', ['--hashes', '--no-shrink', '--failures-max', '99', ...args])
    return output.split('\n').filter((line) => /^\d+ [0-9a-f]{8} /.test(line))
  }
  const [together, again, ...alone] = await Promise.all([
    hashes('--seed', '1', '--count', '5'),
    hashes('--seed', '1', '--count', '5'),
    hashes('--seed', '3'),
    hashes('--seed', '5'),
  ])
  assert.equal(together.length, 5)
  assert.deepEqual(together, again)
  assert.deepEqual(alone.flat(), [together[2], together[4]])
})

test('what broke once holds: every plan in sim/plans', LIMIT, async () => {
  const { code, output } = await run('main.ts', ['--plans', '--count', '0', '--failures-max', '99', '--no-shrink'])
  assert.equal(code, 0, output)
  assert.match(output, new RegExp(`^${readdirSync(join(SIM, 'plans')).length} universes, `, 'm'))
})

test(`every rule holds in ${SECONDS} s of new universes`, LIMIT, async () => {
  const { code, output } = await run('main.ts', ['--seconds', SECONDS, '--no-shrink'])
  assert.equal(code, 0, output)
  assert.match(output, /^\d+ universes, /m, output)
  process.stdout.write(output)
})

for (const [what, mutant] of [
  [
    'uses a socket',
    {
      file: 'engine/src/turn/next.ts',
      from: 'if (turn.takeovers >= LIMITS.restartsMax)',
      to: "void fetch('http://127.0.0.1:1'); if (turn.takeovers >= LIMITS.restartsMax)",
    },
  ],
  [
    'writes a file outside its folder',
    {
      file: 'engine/src/store/sqlite-open.ts',
      from: "openSync(file, 'a', 0o600)",
      to: "openSync('/tmp/breakfall-sim-leak', 'a', 0o600)",
    },
  ],
] as const)
  test(`a universe that ${what} fails and says where`, LIMIT, async () => {
    const { code, output } = await run('main.ts', ['--seed', '2', '--no-shrink'], {
      SIM_MUTANT: JSON.stringify(mutant),
    })
    assert.equal(code, 1, output)
    assert.match(output, /real I\/O in the universe: .*\n.* at /)
  })

// ---- details ----

async function run(
  program: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = spawn(process.execPath, ['--import', join(SIM, 'host/install.ts'), join(SIM, program), ...args], {
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [output, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return { code: code as number | null, output: output + errors }
}
