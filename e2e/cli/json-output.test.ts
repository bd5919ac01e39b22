/** `--json` of every command: each line is JSON, the last one is the result, and stderr is for humans. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Command } from 'commander'
import { buildProgram } from '../../packages/cli/src/commands/index.ts'
import { LIMIT } from '../../test/kit/wait.ts'
import { type Ended, Place } from '../breakfall.ts'

const AGENT = join(import.meta.dirname, 'tiny-agent.mjs')

const AWAY = {
  BREAKFALL_MODEL_BASE_URL: 'http://127.0.0.1:9/v1',
  BREAKFALL_MODEL_NAME: 'any',
  BREAKFALL_POLICY_ATTEMPTS_MAX: '1',
}

/** Arguments of a command and extra fields of its result. Servers are stopped once they listen. */
type Row = { readonly args: readonly string[]; readonly code?: number; readonly serves?: true; readonly says: object }

test('every command ends with a result line', LIMIT, async () => {
  await using place = new Place()
  await using other = new Place()
  const { json } = await place.run(['run', 'hello', '--json', '--park-wait-ms', '0'], AWAY)
  const { turnId, sessionId } = json.at(-1) as { turnId: string; sessionId: string }
  const up = place.start(['up', '--json'], AWAY)
  await up.seen((line) => line['event'] === 'listening')
  const rows: Readonly<Partial<Record<string, Row>>> = {
    run: { args: ['hello', '--park-wait-ms', '0'], code: 3, says: { outcome: 'parked' } },
    up: { args: ['--state-dir', other.stateDir], serves: true, says: {} },
    runner: { args: ['--state-dir', `${other.stateDir}-runner`], serves: true, says: {} },
    gateway: { args: ['--upstream', 'http://127.0.0.1:9/v1'], serves: true, says: {} },
    chaos: { args: ['--upstream', 'http://127.0.0.1:9'], serves: true, says: { requests: 0 } },
    sessions: { args: [], says: {} },
    show: { args: [turnId], says: { id: turnId, state: 'parked' } },
    tail: { args: [sessionId, '--no-follow'], says: { sessionId } },
    resume: { args: [turnId], code: 3, says: { id: turnId, outcome: 'parked' } }, // it parks again at once
    cancel: { args: [turnId], says: { id: turnId, state: 'cancelled' } },
    explain: { args: ['429 Too Many Requests'], says: { category: 'model_rate_limited' } },
    doctor: { args: ['--state-dir', other.stateDir], code: 1, says: { bad: 1 } },
    'config show': { args: [], says: { warnings: [] } },
    'config example': { args: [], says: {} },
    'service print': { args: [], says: {} },
    completion: { args: ['bash'], says: {} },
    output: { args: ['no-such-exec'], code: 2, says: { outcome: 'failed' } },
    prune: { args: ['--older-than', '30d', '--dry-run'], says: { sessions: 0 } },
    rm: { args: [sessionId], says: {} },
    login: { args: ['somewhere'], code: 2, says: { outcome: 'failed' } }, // there is no such provider
    logout: { args: ['somewhere'], code: 1, says: { outcome: 'failed' } }, // it has none
    attach: { args: ['nobody'], code: 1, says: { outcome: 'failed' } },
    approve: { args: ['nobody'], code: 1, says: { outcome: 'failed' } },
    export: { args: ['nobody'], code: 1, says: { outcome: 'failed' } },
    'mcp list': { args: [], says: { servers: 0 } },
    'mcp tools': { args: ['none'], code: 1, says: { outcome: 'failed' } },
    'mcp call': { args: ['none', 'tool'], code: 1, says: { outcome: 'failed' } },
    'mcp logs': { args: ['none'], code: 1, says: { outcome: 'failed' } },
    'mcp restart': { args: ['none'], code: 1, says: { outcome: 'failed' } },
    'mcp login': { args: ['none'], code: 1, says: { outcome: 'failed' } },
    'mcp logout': { args: ['none'], code: 1, says: { outcome: 'failed' } },
    'mcp import': { args: [], code: 2, says: { outcome: 'failed' } },
    open: { args: ['--print'], says: {} },
    demo: { args: ['--print', '--port', '70000'], code: 2, says: { outcome: 'failed' } },
    store: { args: ['migrate'], code: 2, says: { outcome: 'failed' } }, // no PostgreSQL is named
    processes: { args: [], says: { processes: 0 } },
    undo: { args: ['nobody'], code: 1, says: { outcome: 'failed' } },
    diff: { args: ['nobody'], code: 1, says: { outcome: 'failed' } },
    daemons: { args: [], says: {} },
    runners: { args: [], says: {} },
    fleet: { args: ['enroll'], code: 2, says: { outcome: 'failed' } }, // no key is named
    uninstall: { args: [], code: 1, says: { outcome: 'failed' } }, // a daemon runs
    trial: { args: ['--faults', 'status:503', '--', process.execPath, AGENT], says: { score: { exact: 1, of: 1 } } },
  }
  const all = new Map(leaves(buildProgram(() => undefined)))
  assert.deepEqual(
    Object.keys(rows).filter((name) => !all.has(name)),
    [],
  )
  const inOrder = [...Object.keys(rows), ...all.keys()] // `rm` comes after what needs its session
  for (const name of new Set(inOrder)) {
    const { args, code, serves, says } = rows[name] ?? anyRow(all.get(name))
    const running = place.start([...name.split(' '), '--json', ...args], AWAY)
    if (serves === true) {
      await running.seen((line) => line['event'] === 'listening')
      running.child.kill('SIGTERM')
    }
    const ended = await running.ended
    const result = resultOf(ended, name)
    if (name in rows) assert.equal(ended.code, code ?? 0, `${name}: ${ended.stderr}`)
    assert.partialDeepStrictEqual(result, says, name)
    if (ended.code === 0) assert.equal(result['outcome'], 'finished', name)
    if (name === 'doctor') assertChecks(ended)
  }
})

test('a failure is reported once on stdout for programs, and as a message on stderr for humans', LIMIT, async () => {
  await using place = new Place({ 'a file': '' })
  const stateDir = `${place.folder}/a file`
  for (const [args, code, category] of [
    [['show', 'x'], 1, 'not_found'],
    [['tail', 'x'], 125, 'daemon_unreachable'],
    [['cancel', 'x'], 1, 'not_found'],
    [['resume', 'x'], 125, 'daemon_unreachable'],
    [['up', '--state-dir', stateDir], 2, 'invalid_request'],
    [['runner', '--state-dir', stateDir], 2, 'invalid_request'],
    [['gateway'], 2, 'invalid_request'],
    [['chaos'], 2, 'invalid_request'],
    [['run', 'x', '--base-url', 'nonsense'], 2, 'invalid_request'],
    [
      ['run', 'x', '--state-dir', stateDir, '--base-url', 'http://127.0.0.1:9/v1', '--model', 'm'],
      2,
      'invalid_request',
    ],
    [['explain'], 2, 'invalid_request'],
    [['service', 'print', '--port', '-1'], 2, 'invalid_request'],
    [['completion', 'cmd'], 2, 'invalid_request'],
    [['config', 'show', 'x'], 2, 'invalid_request'],
    [['doctor', '--nonsense'], 2, 'invalid_request'],
  ] as const) {
    const name = args.join(' ')
    const ended = await place.run([...args, '--json'])
    const { fault, outcome } = resultOf(ended, name) as { outcome: string; fault: { category: string; error: string } }
    assert.deepEqual([ended.code, outcome, fault.category], [code, 'failed', category], `${name}: ${ended.stderr}`)
    assert.ok(ended.stderr.includes(fault.error), `${name}: ${ended.stderr}`)
  }
})

test('a prompt that contains the text of a flag does not switch to JSON', LIMIT, async () => {
  await using place = new Place()
  const { lines } = await place.run(['show', '--', '--json'])
  assert.deepEqual(lines, [])
})

/** The checks of `doctor`, by name. Each is fine, or says what was found or how to fix it. */
function assertChecks({ json }: Ended): void {
  const checks = json.slice(0, -1)
  const names = new Set(checks.map((line) => line['check']))
  for (const name of ['Node', 'sandbox', 'state', 'disk', 'port', 'daemon', 'model']) assert.ok(names.has(name), name)
  for (const line of checks)
    assert.ok(line['verdict'] === 'ok' || typeof (line['fix'] ?? line['found']) === 'string', JSON.stringify(line))
}

/** The last line, after checking that every line is JSON and that stderr is not. */
function resultOf({ lines, json, stderr }: Ended, name: string): Record<string, unknown> {
  assert.equal(json.length, lines.length, `${name}: each line is JSON: ${lines.join('\n')}`)
  assert.deepEqual(
    json.flatMap((line, index) => (line['event'] === 'result' ? [index] : [])),
    [json.length - 1],
    `${name}: the last line is the result, and no other: ${lines.join('\n')}${stderr}`,
  )
  const faults = stderr.split('\n').filter((line) => line.startsWith('{') && line.includes('"category"'))
  assert.deepEqual(faults, [], `${name}: stderr is for people`)
  const result = json.at(-1) ?? {}
  assert.equal(typeof result['outcome'], 'string', name)
  if (result['outcome'] !== 'finished') assert.equal(typeof result['fault'], 'object', name)
  return result
}

/** For a command without a row: anything in place of each argument that it needs. */
const anyRow = (command: Command | undefined): Row => ({
  args: (command?.registeredArguments ?? []).flatMap(({ required, argChoices }) =>
    required ? [argChoices?.[0] ?? 'nobody'] : [],
  ),
  says: {},
})

function leaves(command: Command, path: readonly string[] = []): readonly (readonly [string, Command])[] {
  if (command.commands.length === 0) return [[path.join(' '), command]]
  return command.commands.flatMap((child) => leaves(child, [...path, child.name()]))
}
