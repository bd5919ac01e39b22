/** The pure parts: status files, exit records, box states, request hashes, ranges, pages, paths and sandbox options. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { BOX_STATES, type ExecCause, type SpawnFailure } from '@breakfall/wire'
import { parseRange } from '../src/server/ranges.ts'
import { cursorOf, page } from '../src/server/paging.ts'
import { BOX_TRANSITIONS, mayFollow, requireRunning } from '../src/box/states.ts'
import { fillRequest, requestHash } from '../src/exec/request.ts'
import { type ExitFacts, exitRecord } from '../src/exec/exit-record.ts'
import { Turnstile } from '../src/exec/spawn-queue.ts'
import { parseStatus } from '../src/exec/keeper-status.ts'
import { bwrapOptions } from '../src/isolation/bwrap-args.ts'
import { pathParts } from '../src/files/walk.ts'
import { pathOf } from '../src/contract/routes.ts'

const facts = (status: string, more: Partial<ExitFacts> = {}): ExitFacts => ({
  level: 'bwrap',
  status: parseStatus(status),
  claimed: true,
  stop: null,
  oomKills: 0,
  durationMs: 1,
  survivors: [],
  stdoutBytes: 0,
  stderrBytes: 0,
  truncated: false,
  diagnostics: [],
  ...more,
})

const nothingWrong = (): undefined => undefined

const RAN = 'keeper 10 k1 5\npid 11\n{ "child-pid": 12 }\n'

describe('how an exec ended', () => {
  const rows: readonly [
    string,
    ExitFacts,
    { cause: ExecCause; started: boolean | null; code: number | null; signal?: string; guess?: string },
  ][] = [
    ['a code', facts(`${RAN}{ "exit-code": 3 }\nexit 3\n`), { cause: 'exited', started: true, code: 3 }],
    [
      'a signal, guessed in a sandbox',
      facts(`${RAN}{ "exit-code": 139 }\nexit 139\n`),
      { cause: 'exited', started: true, code: 139, guess: 'SIGSEGV' },
    ],
    [
      'a signal, proven by the shell',
      facts('keeper 1 k1 5\npid 2\nKilled\nexit 137\n', { level: 'process' }),
      { cause: 'signaled', started: true, code: null, signal: 'SIGKILL' },
    ],
    [
      'a high code is not a signal without proof',
      facts('keeper 1 k1 5\npid 2\nexit 137\n', { level: 'process' }),
      { cause: 'exited', started: true, code: 137, guess: 'SIGKILL' },
    ],
    [
      'out of memory',
      facts(`${RAN}{ "exit-code": 137 }\nexit 137\n`, { oomKills: 1 }),
      { cause: 'oom_killed', started: true, code: 137, guess: 'SIGKILL' },
    ],
    [
      'a child out of memory',
      facts(`${RAN}{ "exit-code": 0 }\nexit 0\n`, { oomKills: 1 }),
      { cause: 'exited', started: true, code: 0 },
    ],
    [
      'ended by the runner, regardless of the code',
      facts(`${RAN}{ "exit-code": 0 }\nexit 0\n`, { stop: 'timed_out' }),
      { cause: 'timed_out', started: true, code: 0 },
    ],
    [
      'of an earlier version, in a sandbox that was built ahead',
      facts(`${RAN}warm\nready\nbegun 77\n{ "exit-code": 7 }\nexit 7\n`),
      { cause: 'exited', started: true, code: 7 },
    ],
    [
      'of an earlier version, whose sandbox never got its command',
      facts(`${RAN}warm\nready\n{ "exit-code": 125 }\nexit 125\n`),
      { cause: 'spawn_failed', started: false, code: null },
    ],
    [
      'the same, and its keeper is gone',
      facts(`${RAN}warm\nready\n`),
      { cause: 'runner_lost', started: null, code: null },
    ],
    ['the sandbox could not start it', facts(`${RAN}exit 1\n`), { cause: 'spawn_failed', started: false, code: null }],
    [
      'the keeper failed before the command',
      facts('keeper 1 k1 5\nexit 126\n'),
      { cause: 'spawn_failed', started: false, code: null },
    ],
    [
      'exit 1 of the command itself',
      facts(`${RAN}{ "exit-code": 1 }\nexit 1\n`),
      { cause: 'exited', started: true, code: 1 },
    ],
    ['the keeper is gone', facts(RAN), { cause: 'runner_lost', started: true, code: null }],
    ['the keeper is gone early', facts('keeper 1 k1 5\n'), { cause: 'runner_lost', started: null, code: null }],
    ['never claimed', facts('', { claimed: false }), { cause: 'runner_lost', started: false, code: null }],
    [
      'stopped in the queue',
      facts('', { claimed: false, stop: 'box_stopped' }),
      { cause: 'box_stopped', started: false, code: null },
    ],
    [
      'an incomplete exit line does not count',
      facts(`${RAN}exit 1`),
      { cause: 'runner_lost', started: true, code: null },
    ],
  ]
  for (const [name, given, wanted] of rows) {
    test(name, () => {
      const { cause, started, code, signal, signalGuess } = exitRecord(given, nothingWrong)
      assert.deepEqual(
        { cause, started, code, signal, signalGuess },
        {
          cause: wanted.cause,
          started: wanted.started,
          code: wanted.code,
          signal: wanted.signal ?? null,
          signalGuess: wanted.guess ?? null,
        },
      )
    })
  }

  test('spawn_failed has a reason, and nothing else has', () => {
    const reason = (given: ExitFacts, found?: SpawnFailure): unknown => exitRecord(given, () => found).reason
    assert.equal(reason(facts(`${RAN}exit 1\n`), 'not_found'), 'not_found')
    assert.equal(reason(facts(`${RAN}exit 1\n`)), 'sandbox_failed')
    assert.equal(reason(facts(`${RAN}refused\nexit 126\n`), 'not_found'), 'cwd_missing')
    assert.equal(reason(facts('keeper 1 k1 5\nexit 126\n', { level: 'process' })), 'cwd_missing')
    assert.equal(reason(facts('', { claimed: false, stop: 'spawn_failed' })), 'no_process')
    assert.equal(reason(facts(`${RAN}{ "exit-code": 1 }\nexit 1\n`), 'not_found'), undefined)
    assert.equal(reason(facts('', { claimed: false, stop: 'killed' }), 'not_found'), undefined)
  })

  test('a child killed for memory has its own diagnostic', () => {
    assert.deepEqual(
      exitRecord(facts(`${RAN}{ "exit-code": 0 }\nexit 0\n`, { oomKills: 2 }), nothingWrong).diagnostics.map(
        ({ id, count }) => [id, count],
      ),
      [['oom_killed_child', 2]],
    )
  })
})

test('the states of a box: pinned', () => {
  assert.deepEqual(BOX_TRANSITIONS, {
    creating: ['running', 'failed'],
    running: ['stopping'],
    stopping: ['stopped'],
    stopped: ['running', 'removing'],
    removing: [],
    failed: ['removing'],
  })
  assert.equal(mayFollow('running', 'removing'), false)
})

test('a command in any state but running is 409: box_stopped if stopped, else box_invalid_state', () => {
  for (const state of BOX_STATES.filter((name) => name !== 'running')) {
    assert.throws(() => requireRunning('b1', state), {
      category: state === 'stopped' ? 'box_stopped' : 'box_invalid_state',
    })
  }
  requireRunning('b1', 'running')
})

test('two bodies are the same if they are equal after defaults, in any order of fields', () => {
  const hash = (request: Parameters<typeof fillRequest>[0]): string => requestHash(fillRequest(request))
  assert.equal(
    hash({ execId: 'a', command: ['x'], env: { A: '1', B: '2' } }),
    hash({ env: { B: '2', A: '1' }, timeoutMs: 3_600_000, cwd: '.', command: ['x'], merge: false }),
  )
  assert.notEqual(hash({ command: ['x'] }), hash({ command: ['y'] }))
  assert.notEqual(hash({ command: ['sh', '-c', 'x'] }), hash({ shell: 'x' }))
})

test('ranges follow the RFC', () => {
  assert.deepEqual(parseRange('bytes=0-0', 10), { from: 0, to: 1 })
  assert.deepEqual(parseRange('bytes=5-', 10), { from: 5, to: 10 })
  assert.deepEqual(parseRange('bytes=-3', 10), { from: 7, to: 10 })
  assert.deepEqual(parseRange('bytes=5-100', 10), { from: 5, to: 10 })
  assert.equal(parseRange('bytes=0-1,3-4', 10), undefined)
  for (const bad of ['bytes=10-', 'bytes=7-3'])
    assert.throws(() => parseRange(bad, 10), { category: 'range_not_satisfiable' })
})

test('a page continues after the last one, even if items were added or removed', () => {
  const ids = ['a', 'b', 'c', 'd']
  const first = page(ids, (id) => id, new URLSearchParams({ limit: '2' }), 10)
  assert.deepEqual(first, { items: ['a', 'b'], next: cursorOf('b') })
  assert.deepEqual(
    page(['a', 'c', 'd'], (id) => id, new URLSearchParams({ limit: '2', cursor: cursorOf('b') }), 10),
    { items: ['c', 'd'] },
  )
})

test('URL paths keep slashes only in a rest parameter', () => {
  assert.equal(pathOf('readFile', { prefix: 'p', id: 'b 1', path: 'a b/c?' }), '/v1/p/boxes/b%201/files/a%20b/c%3F')
})

test('file paths are inside the workspace or refused', () => {
  assert.deepEqual(pathParts('a/./b//c', '/workspace'), ['a', 'b', 'c'])
  assert.deepEqual(pathParts('/workspace/a', '/workspace'), ['a'])
  for (const bad of ['../a', 'a/../../b', '/etc/passwd', '/workspace2/a', 'a\0b'])
    assert.throws(() => pathParts(bad, '/workspace'), { category: 'invalid_request' })
})

test('the sandbox drops all capabilities, binds only the given paths as writable, and is read-only otherwise', () => {
  const options = bwrapOptions({
    view: {
      mounts: [
        { at: '/usr', host: '/usr', mode: 'ro' },
        { at: '/w', host: '/state/w', mode: 'rw' },
      ],
      links: new Map([['/bin', 'usr/bin']]),
      masks: [],
      isHost: false,
    },
    user: { kind: 'userns', uid: 0, gid: 0, disableUserns: true },
    network: 'none',
    cwd: '/w',
    environment: { A: '1' },
  })
  const text = options.join(' ')
  for (const part of [
    '--unshare-user --uid 0 --gid 0 --disable-userns',
    '--unshare-net',
    '--die-with-parent --new-session --cap-drop ALL',
    '--ro-bind /usr /usr',
    '--bind /state/w /w',
    '--remount-ro /proc --remount-ro /',
    '--clearenv --setenv A 1',
  ])
    assert.ok(text.includes(part), part)
  assert.equal(options.filter((option) => option === '--bind').length, 1)
  assert.ok(!text.includes('--cap-add'))
})

test('one caller passes per turn of the event loop, the first at once', async () => {
  const turnstile = new Turnstile()
  const order: string[] = []
  const passing = ['a', 'b', 'c'].map((name) => turnstile.pass().then(() => order.push(name)))
  setImmediate(() => order.push('turn'))
  await Promise.all(passing)
  assert.deepEqual(order.slice(0, 2), ['a', 'b'].slice(0, 1).concat(order[1] ?? ''))
  assert.ok(order.indexOf('turn') < order.indexOf('c'), order.join())
})
