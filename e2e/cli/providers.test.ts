/** Several providers and keys at the same time: each run uses its own, and no key is kept anywhere but in memory. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { json, type Play } from '../../test/kit/plays.ts'
import { startModelServer } from '../../test/kit/model-server.ts'
import { cut, stream } from '../../test/kit/plays.ts'
import { messageItem, responseFrames, upToDelta } from '../../test/kit/responses-frames.ts'
import { LIMIT } from '../../test/kit/wait.ts'
import { say, sayWhen } from '../answers.ts'
import { hasTerminals } from '../breakfall.ts'
import { checked, Desk, endedWith, gone, serverIsolation, whole } from './desk.ts'

const FIRST = 'sk-first-5e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b'
const SECOND = 'sk-second-9b8c7d6e5f4a3b2c1d0e9f8a7b5e1f0a'

const bare = (baseUrl: string, key: string) => ({
  bare: true,
  env: { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: key },
})

/** Every file under the folder, as text. */
function textUnder(folder: string): string {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
    .join('\n')
}

test('two terminals with two servers and two keys work at the same time, each with its own key', LIMIT, async () => {
  const later = Promise.withResolvers<void>()
  await using desk = await Desk.start([sayWhen(later.promise, 'wait ', 'one'), say('three')])
  await using other = await startModelServer([say('two')])
  const first = desk.begin(['go', '--share', '--model', 'any'], bare(desk.model.url, FIRST))
  const { sessionId } = await first.seen(({ type }) => type === 'text-delta')
  const second = checked(await whole(desk.begin(['go', '--share', '--model', 'm2'], bare(other.url, SECOND))))
  endedWith(second, 0, 'finished')
  const third = checked(await whole(desk.begin(['go', '--share', '--model', 'any'], bare(desk.model.url, SECOND))))
  endedWith(third, 0, 'finished')
  const { pid } = desk.daemon()
  const shown = (await desk.command(['show', String(sessionId), '--json'], { bare: true })).lines.join('\n')
  assert.ok(shown.includes(`"baseUrl":"${desk.model.url}"`), shown)
  for (const key of [FIRST, SECOND]) {
    assert.ok(!readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(key))
    assert.ok(!shown.includes(key) && !second.stdout.includes(key) && !second.stderr.includes(key))
    assert.ok(!textUnder(desk.stateDir).includes(key), 'no file of the state folder has the key')
  }
  later.resolve()
  endedWith(checked(await whole(first)), 0, 'finished')
  const keys = desk.model.received('any').map(({ headers }) => headers['authorization'])
  assert.deepEqual(keys, [`Bearer ${FIRST}`, `Bearer ${SECOND}`])
  assert.deepEqual(
    other.requests.filter(({ path }) => path.endsWith('/completions')).map(({ headers }) => headers['authorization']),
    [`Bearer ${SECOND}`],
  )
})

test(
  'after a daemon is killed, a turn whose key is gone parks and names the variable; the key brings it back',
  LIMIT,
  async () => {
    await using desk = await Desk.start([sayWhen(new Promise(() => undefined), 'wait ', 'never'), say('done')])
    await using other = await startModelServer([say('wrong')])
    const up = ['up', '--json', '--port', '0', ...serverIsolation]
    const daemon = desk.start(up, { bare: true })
    await daemon.seen(({ event }) => event === 'listening')
    const run = desk.begin(['go', '--model', 'any'], bare(desk.model.url, FIRST))
    const { sessionId, turnId } = await run.seen(({ type }) => type === 'text-delta')
    run.child.kill('SIGKILL')
    daemon.child.kill('SIGKILL')
    await Promise.all([run.ended, daemon.ended])
    const again = desk.start(up, bare(other.url, SECOND)) // another provider: not this turn's
    const { unfinished } = await again.seen(({ event }) => event === 'listening')
    assert.deepEqual(
      (unfinished as Record<string, unknown>[]).map(({ turnId: id, state, workspace }) => [id, state, workspace]),
      [[turnId, 'cut-off', desk.folder]],
    )
    const tail = desk.start(['tail', String(sessionId), '--json'], { bare: true })
    const { fault } = await tail.seen(({ type }) => type === 'parked')
    const { category, error } = fault as { category: string; error: string }
    assert.equal(category, 'model_auth_failed')
    assert.match(error, /OPENAI_API_KEY/)
    tail.child.kill('SIGTERM')
    await tail.ended
    const back = checked(await whole(desk.begin(['--continue'], bare(desk.model.url, FIRST))))
    endedWith(back, 0, 'finished')
    assert.equal(other.requests.filter(({ path }) => path.endsWith('/completions')).length, 0)
    assert.equal(desk.model.received('any').at(-1)?.headers['authorization'], `Bearer ${FIRST}`)
    again.child.kill('SIGTERM')
    await again.ended
  },
)

test(
  'a run with a wrong key exits 4 at once and names the variable; so does a resume; the right key continues it',
  LIMIT,
  async () => {
    const answer: Play = ({ headers }) =>
      headers['authorization'] === `Bearer ${FIRST}` ? say('done') : json(401, { error: { message: 'no such key' } })
    await using desk = await Desk.start([answer, answer, answer, answer])
    const daemon = desk.start(['up', '--json', '--port', '0', ...serverIsolation], { bare: true })
    await daemon.seen(({ event }) => event === 'listening')
    const run = checked(await whole(desk.begin(['go', '--model', 'any'], bare(desk.model.url, SECOND))))
    endedWith(run, 4, 'parked', 'model_auth_failed')
    assert.match(run.result.fault.error, /Set a valid key in OPENAI_API_KEY/)
    assert.doesNotMatch(run.stderr, /waiting for up to/)
    const unset = checked(await whole(desk.begin(['go', '--model', 'any'], bare(desk.model.url, ''))))
    endedWith(unset, 4, 'parked', 'model_auth_failed')
    assert.match(unset.result.fault.error, /^The model provider needs a key, and OPENAI_API_KEY is not set\. /)
    const { sessionId } = run.result
    const again = await desk.command(['resume', sessionId], bare(desk.model.url, SECOND))
    assert.equal(again.code, 4, again.stderr)
    assert.match(again.lines.join('\n'), /breakfall resume .*breakfall login/)
    const right = await desk.command(['resume', sessionId, '--json'], bare(desk.model.url, FIRST))
    assert.equal(right.code, 0, right.stderr)
    const tail = await desk.command(['tail', sessionId, '--no-follow', '--json'], { bare: true })
    assert.match(tail.lines.join('\n'), /"type":"turn-end"/)
    daemon.child.kill('SIGTERM')
    await daemon.ended
  },
)

test("a killed daemon of a run gets the run's key again", LIMIT, async () => {
  await using desk = await Desk.start([sayWhen(new Promise(() => undefined), 'wait ', 'never'), say('done')])
  const run = desk.begin(['go', '--model', 'any'], bare(desk.model.url, FIRST))
  await run.seen(({ type }) => type === 'text-delta')
  const { pid } = desk.daemon()
  process.kill(pid, 'SIGKILL')
  await gone(pid)
  endedWith(checked(await whole(run)), 0, 'finished')
  assert.deepEqual(
    new Set(desk.model.received('any').map(({ headers }) => headers['authorization'])),
    new Set([`Bearer ${FIRST}`]),
  )
})

test(
  'login stores a key that only its owner can read, every daemon uses it, and logout removes it',
  LIMIT,
  async () => {
    await using desk = await Desk.start([say('done')])
    desk.config(`model = "work/any"\n[providers.work]\nbaseUrl = "${desk.model.url}"\n`)
    const file = join(desk.place.home, 'config', 'breakfall', 'credentials.toml')
    const login = await desk.command(['login', 'work'], { bare: true, input: `${FIRST}\n` })
    assert.equal(login.code, 0, login.stderr)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    const run = checked(await whole(desk.begin(['go'], { bare: true })))
    endedWith(run, 0, 'finished')
    assert.equal(desk.model.received('any')[0]?.headers['authorization'], `Bearer ${FIRST}`)
    for (const args of [
      ['config', 'show', '--origin'],
      ['doctor', '--json'],
    ]) {
      const { lines, stderr } = await desk.command(args, { bare: true })
      const stdout = lines.join('\n')
      assert.match(stdout, /work.*breakfall login/s)
      assert.ok(!(stdout + stderr).includes(FIRST))
    }
    assert.equal((await desk.command(['logout', 'work'], { bare: true })).code, 0)
    assert.ok(existsSync(file) && !readFileSync(file, 'utf8').includes(FIRST))
    assert.notEqual((await desk.command(['logout', 'work'], { bare: true })).code, 0)
  },
)

test('a provider with background = true is read on after a break: the answer is asked for once', LIMIT, async () => {
  const frames = responseFrames([messageItem(['a', 'b', 'c', 'd'])])
  await using desk = await Desk.start([])
  await using server = await startModelServer(({ method, path }) =>
    method === 'POST'
      ? cut(...upToDelta(frames, 2))
      : stream(...frames.slice(Number(/starting_after=(\d+)/.exec(path)?.[1] ?? -1) + 1)),
  )
  const address = `baseUrl = "${server.url}"\napi = "openai-responses"\nbackground = true`
  desk.config(`model = "work/any"\n[providers.work]\n${address}\n`)
  const run = checked(await whole(desk.begin(['go'], { bare: true })))
  endedWith(run, 0, 'finished')
  assert.equal(run.result.text, 'abcd')
  const asked = server.requests.filter(({ method }) => method === 'POST')
  assert.deepEqual(
    asked.map(({ body }) => [body.background, body.store]),
    [[true, true]],
  )
})

test(
  'login asks for the key without showing it, and refuses an unknown provider; run, rm and doctor name what is missing',
  LIMIT,
  async (t) => {
    await using desk = await Desk.start()
    const missing = join(desk.place.home, 'no-such-folder')
    const provider = `[providers.work]\nbaseUrl = "${desk.model.url}"\n`
    desk.config(provider)
    const bareCommand = (...args: string[]) => desk.command(args, { bare: true, input: `${FIRST}\n` })
    for (const [args, says] of [
      [['login', 'wrok'], /There is no provider "wrok" in your config\.toml, only work; nothing was stored/],
      [['run', '--model', 'wrok/any', 'hi'], /There is no provider "wrok" for the model wrok\/any, only work,/],
      [['run', '--isolation', 'process', '--mount', '/usr', '--model', 'work/any', 'hi'], /\/usr cannot be read-only/],
    ] as const) {
      const { code, stderr } = await bareCommand(...args)
      assert.equal(code, 2, stderr)
      assert.match(stderr, says)
      assert.ok(!stderr.includes(FIRST))
    }
    desk.config(`${provider}[box]\nmounts = [${JSON.stringify(missing)}]\n`)
    const refused = await bareCommand('run', '--model', 'work/any', 'hi')
    assert.equal(refused.code, 2)
    assert.match(refused.stderr, /There is no folder .*no-such-folder, which \[box\] mounts in your config\.toml names/)
    const doctor = await bareCommand('doctor')
    assert.equal(doctor.code, 1)
    assert.match(doctor.lines.join('\n'), /no-such-folder is in \[box\] mounts, but there is no such folder/)
    assert.ok(!existsSync(join(desk.place.home, 'config', 'breakfall', 'credentials.toml')))
    if (!hasTerminals) return t.diagnostic('no program "script": the prompt is not tried')
    const login = desk.place.startInTerminal(['login', 'work'])
    await login.shown(/key of work \(not shown\): /)
    login.press(`${FIRST}\r`)
    assert.equal(await login.code, 0, login.text())
    assert.ok(!login.text().includes(FIRST.slice(0, 12)), login.text())
    assert.match(
      readFileSync(join(desk.place.home, 'config', 'breakfall', 'credentials.toml'), 'utf8'),
      new RegExp(FIRST),
    )
  },
)

test(
  'several providers serve at once, each with its own health path and variables; a fallback is provider/name',
  LIMIT,
  async () => {
    await using desk = await Desk.start([], { 'server.mjs': SERVED })
    const served = (name: string): string =>
      `[providers.${name}.serve]\ncommand = ${JSON.stringify([process.execPath, join(desk.folder, 'server.mjs'), '{port}'])}\nhealthPath = "/ready/${name}"\nreadyMs = 60000\nenv = { WHO = "${name}" }\n`
    desk.config(
      `[model]\nname = "one/any"\n${served('one')}${served('two')}[providers.spare]\nbaseUrl = "${desk.model.url}"\napiKeyEnv = "SPARE_KEY"\n[[model.fallback]]\nname = "spare/any"\n`,
    )
    desk.model.script('any', [say('from the spare one')])
    const env = { SPARE_KEY: SECOND }
    const up = desk.start(['up', '--json', '--port', '0', ...serverIsolation], { bare: true, env })
    await up.listening()
    for (const name of ['one', 'two']) {
      const run = checked(await whole(desk.begin(['go', '--share', '--model', `${name}/any`], { bare: true, env })))
      endedWith(run, 0, 'finished')
      assert.equal(run.result.text, `I am ${name}.`)
    }
    const fails = ['fail', '--share', '--model', 'one/broken', '--attempts-max', '1', '--patience-ms', '0']
    const spare = checked(await whole(desk.begin(fails, { bare: true, env })))
    endedWith(spare, 0, 'finished')
    assert.equal(spare.result.text, 'from the spare one')
    assert.equal(desk.model.received('any')[0]?.headers['authorization'], `Bearer ${SECOND}`)
    await up.kill('SIGTERM')
    const doctor = await desk.command(['doctor', '--start-model', '--json'], { bare: true, env })
    const starts = doctor.json.filter(({ check }) => check === 'model start')
    assert.deepEqual(
      starts.map(({ verdict }) => verdict),
      ['ok', 'ok'],
      JSON.stringify(starts),
    )
  },
)

/** Ready only at the path that has its name, which is in its environment. */
const SERVED = `
import { createServer } from 'node:http'
const { WHO } = process.env
createServer(async (request, response) => {
  if (request.url === '/v1/models') return response.end('{"data":[{"id":"any"}]}')
  if (request.method === 'GET') return response.writeHead(request.url === '/ready/' + WHO ? 200 : 404).end()
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  if (JSON.parse(Buffer.concat(chunks).toString()).model === 'broken')
    return response.writeHead(500, { 'content-type': 'application/json' }).end('{"error":{"message":"broken"}}')
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const frame = (delta, finish_reason = null) =>
    response.write('data: ' + JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'any', choices: [{ index: 0, delta, finish_reason }] }) + '\\n\\n')
  frame({ role: 'assistant', content: 'I am ' + WHO + '.' })
  frame({}, 'stop')
  response.end('data: [DONE]\\n\\n')
}).listen(Number(process.argv[2]), '127.0.0.1')
`
