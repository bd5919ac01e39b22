/** What can keep a daemon or a run from starting: each cause has its own message and exit code. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { main, Place } from '../breakfall.ts'
import { type HttpServer, httpServer } from '../../test/kit/http-server.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const SERVER = ['--model', 'any', '--base-url', 'http://127.0.0.1:9/v1']

test('a daemon that is stopped while it waits for its runner shuts down cleanly', LIMIT, async () => {
  await using place = new Place()
  const up = place.start(['up', '--json'], { BREAKFALL_LOG: 'info' })
  await said(up.child, '"msg":"listening"')
  up.child.kill('SIGTERM')
  assert.equal((await up.ended).code, 0)
  assert.throws(() => readFileSync(join(place.stateDir, 'daemon.json')), { code: 'ENOENT' })
})

test(
  'a prompt to a daemon without a model fails immediately, and the next prompt uses a model configured meanwhile',
  LIMIT,
  async () => {
    await using place = new Place()
    await place.start(['up', '--json']).seen((line) => line['event'] === 'listening')
    const { code, json } = await place.run(['run', 'x', '--json'])
    assert.equal(code, 2)
    const { fault } = json.at(-1) as { fault: { category: string; error: string } }
    assert.equal(fault.category, 'invalid_request')
    assert.match(fault.error, /^There is no model for this prompt.*Set OPENAI_BASE_URL/)
    mkdirSync(join(place.home, 'config', 'breakfall'), { recursive: true })
    writeFileSync(
      join(place.home, 'config', 'breakfall', 'config.toml'),
      '[model]\nbaseUrl = "http://127.0.0.1:9/v1"\nname = "a"\n',
    )
    const again = await place.run(['run', 'x', '--json', '--attempts-max', '1', '--park', 'never'])
    assert.equal((again.json.at(-1) as { fault: { category: string } }).fault.category, 'model_unreachable')
  },
)

test('a token that the daemon rejects exits with 4 and names the file, and doctor reports it', LIMIT, async () => {
  await using place = new Place()
  const { tokenFile, url } = await place.start(['up', '--json']).seen((line) => line['event'] === 'listening')
  chmodSync(String(tokenFile), 0o644) // others could read it: the daemon keeps the token that it has
  writeFileSync(String(tokenFile), 'another\n')
  for (const args of [['sessions'], ['run', 'x']]) {
    const { code, stderr } = await place.run(args)
    assert.equal(code, 4, stderr)
    assert.ok(stderr.includes(`rejected the token from ${String(tokenFile)}`), stderr)
  }
  const doctor = await place.run(['doctor', '--json'])
  assert.equal(doctor.code, 1)
  assert.ok(doctor.json.some(({ check, verdict }) => check === 'daemon' && verdict === 'bad'))
  const named = await place.run(['sessions'], { BREAKFALL_URL: String(url), BREAKFALL_TOKEN: 'wrong' })
  assert.equal(named.code, 4)
  assert.match(named.stderr, /the token from BREAKFALL_TOKEN/)
})

test(
  'doctor checks what a run would meet: a rejected key, a remote runner that is unreachable or rejects its token, a daemon with a model',
  LIMIT,
  async () => {
    await using place = new Place()
    const doctor = async (env: Readonly<Record<string, string>>) => {
      const { code, json } = await place.run(['doctor', '--json'], env)
      const found = (check: string) => json.find((line) => line['check'] === check)
      return { code, model: found('model'), runner: found('runner') }
    }
    await using refusing = await httpServer((_, response) => response.writeHead(401).end('{"error":{"message":"no"}}'))
    await using runner = await httpServer((request, response) => {
      const isHealth = request.url === '/v1/health'
      const health = { status: 'ok', version: '1', runnerId: 'r', bootId: 'b', boxes: 0, uptimeMs: 1 }
      response.writeHead(isHealth ? 200 : 401, { 'content-type': 'application/json' })
      response.end(JSON.stringify(isHealth ? health : { category: 'unauthorized', status: 401, title: 'no' }))
    })
    const key = { OPENAI_BASE_URL: `${refusing.url}/v1`, OPENAI_API_KEY: 'bad' }
    const refused = await doctor({ ...key, BREAKFALL_RUNNER_URL: runner.url })
    assert.deepEqual([refused.code, refused.model?.['verdict'], refused.runner?.['verdict']], [1, 'bad', 'bad'])
    assert.match(String(refused.model?.['found']), /rejected the key/)
    const away = await doctor({ BREAKFALL_RUNNER_URL: 'http://127.0.0.1:9' })
    assert.deepEqual([away.code, away.runner?.['verdict']], [1, 'bad'])

    await place.start(['up', '--json', ...SERVER]).seen((line) => line['event'] === 'listening')
    assert.match(String((await doctor({})).model?.['found']), /runs use the model of the daemon/)
  },
)

test(
  'with a daemon of another version the command exits with 2, says how to restart it, and does not send it the token',
  LIMIT,
  async () => {
    await using place = new Place()
    await using other = await answering({ status: 'ok', version: '9.9.9' })
    writeDaemonFile(place, other.url)
    for (const args of [['sessions'], ['run', 'x', '--model', 'a'], ['show', 'x']]) {
      const { code, stderr } = await place.run(args)
      assert.equal(code, 2, stderr)
      assert.match(stderr, /is version 9\.9\.9, this is version .*\. Restart it with this version: kill 4711, then run/)
    }
    const named = await place.run(['sessions'], { BREAKFALL_URL: other.url })
    assert.equal(named.code, 2)
    assert.match(named.stderr, /Use the same version on both sides/)
    assert.deepEqual(other.tokens, [])
  },
)

test('a stale daemon file is ignored, and the process that has its port now gets no token', LIMIT, async () => {
  await using place = new Place()
  await using stranger = await answering({ hello: 'world' })
  writeDaemonFile(place, stranger.url)
  const { code, stderr } = await place.run(['sessions'])
  assert.equal(code, 0)
  assert.match(stderr, /no daemon is running/)
  assert.deepEqual(stranger.tokens, [])
  const named = await place.run(['sessions'], { BREAKFALL_URL: stranger.url })
  assert.equal(named.code, 125)
  assert.match(named.stderr, /is not a Breakfall daemon\. Check BREAKFALL_URL/)
})

test('an unusable state folder exits with 2 and says why', LIMIT, async () => {
  await using place = new Place()
  writeFileSync(join(place.home, 'file'), '')
  const file = join(place.home, 'file')
  for (const [folder, ...args] of [
    [file, 'up'],
    [join(file, 'x'), 'runner'],
    ['/proc/breakfall', 'run', 'x', ...SERVER],
  ] as const) {
    const { code, stderr } = await place.run([...args, '--state-dir', folder])
    assert.equal(code, 2, `${args.join(' ')} ${folder}`)
    assert.match(stderr, /Cannot use the state folder .*: .*; choose another with --state-dir/)
  }
})

test(
  'doctor only looks: it creates nothing, even without bubblewrap, a home or a temporary folder',
  LIMIT,
  async () => {
    await using place = new Place()
    for (const env of [{}, { PATH: '/nonexistent', TMPDIR: join(place.home, 'none') }]) {
      const { code, json, stderr } = await place.run(['doctor', '--json'], env)
      assert.equal(code, 0, stderr)
      assert.deepEqual(json.at(-1), { event: 'result', outcome: 'finished', bad: 0, findings: json.length - 1 })
      assert.ok(
        json.every((line) => line['verdict'] === 'ok' || line['event'] === 'result' || line['fix'] !== undefined),
      )
      const all = json.map(({ check }) => String(check).toLowerCase()).join(' ')
      for (const part of ['node', 'sandbox', 'disk', 'port', 'model', 'daemon']) assert.ok(all.includes(part), all)
      const sandbox = json.find(({ check }) => check === 'sandbox')
      if ('PATH' in env) assert.match(String(sandbox?.['found']), /bubblewrap is not installed/)
    }
    assert.throws(() => readdirSync(place.stateDir), { code: 'ENOENT' })
  },
)

test('a missing folder in --allow-workspace exits with 2 and is named', LIMIT, async () => {
  await using place = new Place()
  for (const command of ['up', 'runner']) {
    const { code, stderr } = await place.run([command, '--allow-workspace', 'no such folder'])
    assert.equal(code, 2, stderr)
    assert.ok(
      stderr.includes(`--allow-workspace names ${join(place.folder, 'no such folder')}, but there is no such folder`),
      stderr,
    )
  }
})

test('a folder that cannot be used is refused before any model request', LIMIT, async () => {
  await using place = new Place()
  const env = { HOME: place.folder }
  const home = await place.run(['run', 'x', ...SERVER], env)
  assert.equal(home.code, 2)
  assert.match(home.stderr, /which is your home folder; change to a project folder/)
  const above = await place.run(['run', 'x', ...SERVER], { HOME: join(place.folder, 'me') })
  assert.match(above.stderr, /which contains your home folder/)
  const gone = join(place.folder, 'gone')
  mkdirSync(gone)
  const shell = spawnSync('/bin/sh', ['-c', 'rmdir "$0" && exec "$1" "$2" run x', gone, process.execPath, main], {
    cwd: gone,
    encoding: 'utf8',
  })
  assert.equal(shell.status, 2, shell.stderr)
  assert.match(shell.stderr, /The current folder no longer exists/)
})

test('a read-only folder is reported as such, also to root', LIMIT, async () => {
  await using place = new Place()
  chmodSync(place.folder, 0o555)
  const { stderr } = await place.run(['run', 'x', ...SERVER, '--attempts-max', '1', '--park-wait-ms', '0'])
  assert.match(stderr, /you cannot write to this folder/)
  chmodSync(place.folder, 0o755)
})

const hasNamespaces = spawnSync('unshare', ['-n', 'true']).status === 0

test(
  'a machine without loopback gets an immediate message about it',
  { ...LIMIT, skip: !hasNamespaces && 'no network namespaces here' },
  async () => {
    await using place = new Place()
    const { status, stderr } = spawnSync(
      'unshare',
      ['-n', process.execPath, main, 'run', 'x', '--model', 'any', ...SERVER],
      {
        cwd: place.folder,
        encoding: 'utf8',
        env: { PATH: process.env['PATH'], HOME: place.home },
        timeout: 30_000, // it once retried for most of a minute
      },
    )
    assert.equal(status, 125, stderr)
    assert.match(stderr, /loopback interface is down\. Bring it up/)
  },
)

test('a missing token for a remote runner is reported at the start, and no token is created', LIMIT, async () => {
  await using place = new Place()
  const missing = join(place.home, 'missing-token')
  const remote = { BREAKFALL_RUNNER_URL: 'http://127.0.0.77:9009', BREAKFALL_RUNNER_TOKEN_FILE: missing }
  const { stderr } = await place.run(['run', 'x', ...SERVER, '--attempts-max', '1', '--park', 'never'], remote)
  assert.match(stderr, /warning: \[runner\] tokenFile names .*missing-token, but there is no such file/)
  await place.run(['doctor'], remote)
  assert.equal(existsSync(missing), false)
})

test("without an absolute HOME, files of a cloned folder are not used as the user's config", LIMIT, async () => {
  await using place = new Place({ '.config/breakfall/config.toml': '[model]\nbaseUrl = "http://evil.example/v1"\n' })
  for (const HOME of ['', '.']) {
    const { code, lines } = await place.run(['config', 'show'], { HOME, XDG_CONFIG_HOME: '' })
    assert.equal(code, 0)
    assert.ok(!lines.join('\n').includes('evil'), lines.join('\n'))
  }
})

// ---- details ----

function writeDaemonFile(place: Place, url: string): void {
  mkdirSync(place.stateDir, { recursive: true })
  const tokenFile = join(place.stateDir, 'daemon.token')
  writeFileSync(tokenFile, 'secret\n', { mode: 0o600 })
  writeFileSync(join(place.stateDir, 'daemon.json'), JSON.stringify({ url, pid: 4711, tokenFile }))
}

async function said(child: { stderr: NodeJS.ReadableStream | null }, words: string): Promise<void> {
  let text = ''
  await new Promise<void>((resolve) => {
    child.stderr?.on('data', (chunk: Buffer) => {
      if ((text += chunk.toString()).includes(words)) resolve()
    })
  })
}

/** Answers every request with the same JSON and records which requests carried a token. */
async function answering(body: object): Promise<HttpServer & { tokens: string[] }> {
  const tokens: string[] = []
  const server = await httpServer((req, res) => {
    if (req.headers.authorization !== undefined) tokens.push(req.headers.authorization)
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  return { ...server, tokens }
}
