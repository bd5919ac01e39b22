/** What can go wrong before anything starts: each problem has its own message and exit code. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isolation, Place } from '../breakfall.ts'
import { startTcpServer } from '../../test/kit/tcp-server.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const listening = (line: Record<string, unknown>): boolean => line['event'] === 'listening'

test(
  'a daemon prints its address and writes daemon.json, and a second daemon on the same folder is refused',
  LIMIT,
  async () => {
    await using place = new Place()
    const first = place.start(['up', '--json', '--port', '0', '--state-dir', place.stateDir])
    const line = await first.seen(listening)
    assert.deepEqual(Object.keys(line).sort(), ['console', 'event', 'pid', 'runner', 'tokenFile', 'unfinished', 'url'])
    const file = JSON.parse(readFileSync(join(place.stateDir, 'daemon.json'), 'utf8')) as { url: string; pid: number }
    assert.equal(file.url, line['url'])
    assert.equal(file.pid, first.child.pid)
    const second = await place.run(['up', '--state-dir', place.stateDir])
    assert.equal(second.code, 2, 'as for a port, or a second runner')
    assert.match(
      second.stderr,
      new RegExp(`A daemon is already running for the state folder .*, at ${String(line['url'])}; use it`),
    )
    assert.doesNotMatch(second.stderr, /lease_lost|locked/, 'reported once, as a message')
    const sessions = await place.run(['sessions', '--json'])
    assert.deepEqual(sessions.json, [{ event: 'result', outcome: 'finished', count: 0 }])
  },
)

test('after kill -9 the lock is stale, and the next daemon starts anyway', LIMIT, async () => {
  await using place = new Place()
  const first = place.start(['up', '--json', '--state-dir', place.stateDir])
  await first.seen(listening)
  first.child.kill('SIGKILL')
  await first.ended
  assert.match((await place.run(['sessions'])).stderr, /no daemon is running/, 'the stale daemon.json is not believed')
  await place.start(['up', '--json', '--state-dir', place.stateDir]).seen(listening)
})

test('a taken port is reported by number', LIMIT, async () => {
  await using place = new Place()
  await using other = await startTcpServer((socket) => socket.destroy())
  const { code, stderr } = await place.run(['up', '--port', String(other.port)])
  assert.equal(code, 2)
  assert.match(stderr, new RegExp(`Port ${other.port} on 127\\.0\\.0\\.1 is in use`))
  const demo = await place.run(['demo', '--print', '--port', String(other.port), ...isolation])
  assert.equal(demo.code, 2, demo.stderr)
  assert.match(
    demo.stderr,
    new RegExp(`breakfall: Port ${other.port} on 127\\.0\\.0\\.1 is in use; choose another with --port`),
  )
  assert.doesNotMatch(demo.stderr, /it restarts/)
})

test('a token file in a folder that does not exist is refused, and the folder is not created', LIMIT, async () => {
  await using place = new Place()
  for (const [command, folder] of [
    ['runner', join(place.folder, 'no', 'such')],
    ['gateway --upstream http://127.0.0.1:9/v1', '/no-such-folder-of-breakfall'],
  ] as const) {
    const { code, stderr } = await place.run([...command.split(' '), '--token-file', join(folder, 'x')])
    assert.equal(code, 2, stderr)
    assert.match(stderr, /Cannot create the token file .*\/x: its folder does not exist\. Nothing started\./)
    assert.ok(!existsSync(folder), command)
  }
})

test(
  'every command has help, completion works in three shells, and the example config is valid unchanged',
  LIMIT,
  async () => {
    await using place = new Place()
    const help = await place.run(['--help'])
    assert.equal(help.code, 0)
    for (const command of [
      'run',
      'up',
      'runner',
      'gateway',
      'sessions',
      'show',
      'cancel',
      'resume',
      'tail',
      'explain',
      'chaos',
      'doctor',
      'config',
      'service',
      'completion',
    ]) {
      assert.match(help.lines.join('\n'), new RegExp(`^  ${command}\\b`, 'm'))
    }
    for (const shell of ['bash', 'zsh', 'fish']) {
      const script = await place.run(['completion', shell])
      assert.equal(script.code, 0)
      assert.match(script.lines.join('\n'), /doctor/)
    }
    const example = await place.run(['config', 'example'])
    mkdirSync(join(place.home, 'config', 'breakfall'), { recursive: true })
    writeFileSync(
      join(place.home, 'config', 'breakfall', 'config.toml'),
      example.lines.join('\n').replaceAll(/^# (?=\w+ = |\[)/gm, ''),
    )
    const shown = await place.run(['config', 'show', '--origin'])
    assert.equal(shown.code, 0, shown.stderr)
    assert.match(shown.lines.join('\n'), /policy\.attemptsMax = 6 {3}# .*config\.toml:\d+/)
    assert.match((await place.run(['service', 'print'])).lines.join('\n'), /^ExecStart=.* up --json/m)
  },
)

test('explain reads a log from a pipe and prints one fault report', LIMIT, async () => {
  await using place = new Place({
    'server.log':
      'loading\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 9216.00 MiB on device 0: cudaMalloc failed: out of memory\n',
  })
  const { code, json } = await place.run(['explain', '--json', 'server.log'])
  assert.equal(code, 0)
  assert.equal(json.length, 1)
  assert.equal(json[0]?.['category'], 'process_failed')
  assert.match(JSON.stringify(json[0]?.['diagnostics']), /cuda/)
})
