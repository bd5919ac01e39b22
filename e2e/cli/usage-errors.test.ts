/** How `breakfall` reports mistakes, and that a user who sets a model never gets the demo. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { test } from 'node:test'
import { startRehearsalModel } from '@breakfall/chaos'
import { isolation, main, NO_LOCAL_MODEL, Place } from '../breakfall.ts'
import { httpServer } from '../../test/kit/http-server.ts'
import { LIMIT } from '../../test/kit/wait.ts'

test('help for an unknown command names the mistake', LIMIT, async () => {
  await using place = new Place()
  for (const args of [
    ['nonsense', '--help'],
    ['--help', 'nonsense'],
  ]) {
    const { code, stderr } = await place.run(args)
    assert.equal(code, 2, args.join(' '))
    assert.match(stderr, /Unknown command 'nonsense'/)
  }
  assert.equal((await place.run(['run', '--help', 'nonsense'])).code, 0)
})

test('a usage error is a result line, too', LIMIT, async () => {
  await using place = new Place()
  for (const [args, says] of [
    [['nonsense'], /Unknown command 'nonsense'/],
    [['run', '--no-such-flag'], /Unknown option '--no-such-flag'/],
    [['show'], /Missing required argument <id>/],
    [['run', 'x', '--liveness-ms', 'soon'], /flag --liveness-ms: policy\.livenessMs must be an integer/],
    [['chaos', '--upstream', 'http://127.0.0.1:9', '--plan', 'faults=nonsense'], /nonsense/],
  ] as const) {
    const { code, json } = await place.run([...args, '--json'])
    assert.equal(code, 2)
    const { event, outcome, fault, ...rest } = json.at(-1) as Record<string, unknown> & {
      fault: { category: string; error: string }
    }
    assert.deepEqual([event, outcome, fault.category], ['result', 'failed', 'invalid_request'])
    assert.match(fault.error, says)
    assert.deepEqual(rest, args[0] === 'run' ? { turnId: null, text: '', faultsSurvived: 0 } : {})
  }
})

test(
  'a prompt without a model exits with 2 and names the ways to set one; the demo runs only if it is asked for',
  LIMIT,
  async () => {
    await using place = new Place()
    const { code, json, stderr } = await place.run([
      'run',
      'fix my program',
      '--json',
      '--faults',
      'none',
      '--rehearsal',
    ])
    assert.equal(code, 0, stderr)
    assert.equal(json.at(-1)?.['rehearsal'], true)
    const other = await place.run(['run', 'fix my program', '--json'])
    assert.equal(other.code, 2, other.stderr)
    const { fault } = other.json.at(-1) as { fault: { error: string } }
    assert.match(
      fault.error,
      /There is no model for this prompt.*your prompt was not saved.*OPENAI_BASE_URL.*ANTHROPIC/,
    )
    const none = await place.run(['run', '--json'])
    assert.equal(none.code, 2, 'no prompt either')
  },
)

test('a user who sets a model never gets the demo', LIMIT, async () => {
  await using place = new Place()
  await using cloned = new Place({ 'breakfall.toml': '[model]\nname = "qwen3"\n' })
  const refused = async (
    at: Place,
    args: readonly string[],
    env: Record<string, string>,
    says: RegExp,
  ): Promise<void> => {
    const { code, stderr, json } = await at.run(['run', '--json', ...args], env)
    assert.equal(code, 2, `${args.join(' ')} ${stderr}`)
    const { fault } = json.at(-1) as { fault: { error: string } }
    assert.match(fault.error, says)
  }
  await refused(
    place,
    ['x', '--model', 'qwen3'],
    {},
    /model\.name is set \(flag --model\), but there is no model server/,
  )
  await refused(place, ['x'], { BREAKFALL_MODEL_NAME: 'qwen3' }, /environment BREAKFALL_MODEL_NAME/)
  await refused(cloned, ['x'], {}, /model\.name is set \(.*breakfall\.toml:2\)/)
  await refused(place, ['--model', 'qwen3'], {}, /--model needs a prompt/)
  await refused(
    place,
    [],
    { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' },
    /A prompt is missing .*OPENAI_BASE_URL is set.*run -/,
  )
  await refused(place, [], { OPENAI_API_KEY: 'k' }, /A prompt is missing .*OPENAI_API_KEY is set.*--rehearsal/)
  await refused(place, ['--rehearsal', '--model', 'qwen3'], {}, /--model and --rehearsal contradict each other/)
  await refused(place, ['x', '--faults', 'rate=1'], {}, /--faults works only with --rehearsal/)
})

test('an empty prompt and an invalid duration are usage errors, found before anything starts', LIMIT, async () => {
  await using place = new Place()
  for (const [args, says] of [
    [['run', ''], /The prompt is empty/],
    [['run', '--park-wait-ms', 'soon'], /--park-wait-ms.*whole number of milliseconds/],
    [['runner', '--idle-exit-ms', 'soon'], /--idle-exit-ms.*whole number of milliseconds/],
  ] as const) {
    const { code, stderr } = await place.run(args)
    assert.equal(code, 2, args.join(' '))
    assert.match(stderr, says)
  }
})

test('an unreachable model server and a server without models get different messages', LIMIT, async () => {
  await using place = new Place()
  await using server = await httpServer((_, response) => response.writeHead(404).end())
  const silent = await place.run(['run', 'x', '--json', '--base-url', `${server.url}/v1`])
  assert.equal(silent.code, 2, silent.stderr)
  assert.match(silent.stderr, /does not list its models, so name one: --model NAME/)
  const incomplete = await place.run(['run', 'x', '--base-url', `${server.url}/`])
  assert.equal(incomplete.code, 2)
  assert.ok(
    incomplete.stderr.includes(
      `GET ${server.url}/models is 404. Most servers need /v1 at the end: --base-url ${server.url}/v1. If yours has no list, pass --model NAME.`,
    ),
    incomplete.stderr,
  )
  const waits = ['--attempts-max', '2', '--patience-ms', '0', '--backoff-ms', '1', '--park-wait-ms', '0', ...isolation]
  const away = await place.run(['run', 'x', '--json', '--base-url', 'http://127.0.0.77:9009/v1', ...waits])
  assert.equal(away.code, 3, away.stderr)
  const { fault, faultsSurvived } = away.json.at(-1) as {
    fault: { category: string; error: string }
    faultsSurvived: number
  }
  assert.deepEqual([fault.category, faultsSurvived], ['model_unreachable', 0], 'there was a retry, and it did not help')
  assert.deepEqual(place.leftovers(), [])
  assert.match(fault.error, /at 127\.0\.0\.77:9009 is not reachable \(the connection was refused\)/)
})

const TOO_LONG = /^breakfall: The prompt is larger than 1 MiB/

test('a prompt can be piped in, and binary or too long input is reported', LIMIT, async () => {
  await using place = new Place()
  const model = await startRehearsalModel()
  try {
    const env = { OPENAI_BASE_URL: model.url }
    const piped = ['run', '-', '--json', '--model', 'rehearsal/echo', ...isolation]
    const long = `say this\n${'x'.repeat(300_000)}`
    const { code, json, stderr } = await place.run(piped, env, long)
    assert.equal(code, 0, stderr)
    assert.equal(json.find(({ type }) => type === 'turn-start')?.['prompt'], long)
    const shown = await place.run(['tail', String(json.at(-1)?.['sessionId']), '--no-follow', '--json'])
    assert.deepEqual(shown.json.slice(0, -1), json.slice(0, -1), 'all of it is written before the command ends')
    assert.equal(shown.json.at(-1)?.['event'], 'result')
    for (const [input, wanted, says] of [
      [' \n', 2, /The prompt is empty/],
      [Buffer.from([0x66, 0xff, 0xfe]), 2, /not valid UTF-8 text/],
      ['x'.repeat(3_000_000), 1, TOO_LONG],
      ['"'.repeat(700_000), 1, TOO_LONG], // each character is sent as two
      ['a\0b', 2, /NUL/],
    ] as const) {
      const refused = await place.run(piped, env, input)
      assert.equal(refused.code, wanted, refused.stderr)
      assert.match(refused.stderr, says)
    }
    const sessions = await place.run(['sessions', '--json'])
    assert.equal(sessions.json.at(-1)?.['count'], 1, 'none was made for what was refused')
  } finally {
    await model.close()
  }
})

test('output that cannot be written is reported, and a run continues without it', LIMIT, async () => {
  await using place = new Place()
  const full = openSync('/dev/full', 'w')
  const to = async (args: readonly string[], stdout: number | 'ignore', stderr: number | 'pipe'): Promise<string> => {
    const env = { PATH: process.env['PATH'], HOME: place.home, ...NO_LOCAL_MODEL }
    const child = spawn(process.execPath, [main, ...args], {
      cwd: place.folder,
      stdio: ['ignore', stdout, stderr],
      env,
    })
    let text = ''
    child.stderr?.on('data', (chunk: Buffer) => (text += chunk.toString()))
    const [code] = (await once(child, 'close')) as [number]
    return `${code} ${text}`
  }
  const SAID = 'breakfall: Cannot write to standard output: ENOSPC: no space left on device, write\n'
  try {
    for (const args of [['sessions', '--json'], ['--help']]) {
      const said = await to(args, full, 'pipe')
      assert.ok(said.startsWith('1 ') && said.endsWith(SAID), said)
    }
    const run = await to(['run', '--rehearsal', '--faults', 'none'], full, 'pipe')
    assert.ok(run.startsWith('0 ') && run.includes(SAID), run)
    assert.equal(run.split('Cannot write to').length, 2, 'said once')
    assert.equal(await to(['nonsense'], 'ignore', full), '2 ')
  } finally {
    closeSync(full)
  }
})

test('without a sandbox the message says how to continue without one', LIMIT, async () => {
  await using place = new Place()
  const env = { OPENAI_BASE_URL: 'http://127.0.0.77:9009/v1', PATH: place.folder }
  const { code, stderr } = await place.run(['run', 'go', '--model', 'any'], env)
  assert.equal(code, 1, stderr)
  assert.match(
    stderr,
    /cannot isolate commands.*bwrap is not on the PATH\n {2}to run without a sandbox.*--isolation process\n/s,
  )
})

test('npm start never sends a command with a word too many to a model', LIMIT, async () => {
  await using server = await httpServer((_request, response) => response.end())
  await using place = new Place()
  for (const line of ['explain stuff here now', 'config is broken']) {
    const { code, stderr } = await place.run(['npm-start', ...line.split(' ')], { OPENAI_BASE_URL: server.url })
    assert.equal(code, 2, `${line}: ${stderr}`)
    assert.ok(stderr.includes(`start -- run '${line}'`), stderr)
  }
  const typo = await place.run(['npm-start', 'gatewya', '--upstream', server.url])
  assert.equal(typo.code, 2)
  assert.match(typo.stderr, /Unknown command 'gatewya'\. Did you mean gateway\? .*For help: npm .*start -- --help/)
  assert.equal(server.count, 0)
})
