/** The runner's API over raw HTTP: the listening line, tokens, prefixes, refusals of every kind, identity and epoch. */
import assert from 'node:assert/strict'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { assertProblem, BOXES, type Json, WireRunner } from './runner-process.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const PROCESS = ['--allow-isolation', 'process']
let runner: WireRunner

before(async () => {
  runner = await WireRunner.start({ flags: PROCESS })
})
after(() => runner[Symbol.asyncDispose]())

const boxIds = async (): Promise<string[]> => (await runner.get(BOXES)).json.boxes.map((box: Json) => box.id)

test(
  'the listening line contains address, identity and isolation, and only the owner can read the token file',
  LIMIT,
  () => {
    const { event, url, runnerId, bootId, pid, isolation } = runner.listening
    assert.equal(event, 'listening')
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.ok(runnerId && bootId && runnerId !== bootId)
    assert.equal(pid, runner.program.child.pid)
    assert.match(isolation.level, /^(bwrap|process)$/)
    assert.equal(statSync(runner.tokenFile).mode & 0o777, 0o600)
    assert.ok(runner.token.length >= 20, 'a token that cannot be guessed')
  },
)

test('the state folder names the running runner in runner.json', LIMIT, () => {
  const named = JSON.parse(readFileSync(join(runner.stateDir, 'runner.json'), 'utf8'))
  assert.equal(named.url, runner.url)
  assert.equal(named.runnerId, runner.listening.runnerId)
  assert.equal(named.pid, runner.program.child.pid)
})

test('health needs no token and contains exactly four fields', LIMIT, async () => {
  const { status, json } = await runner.get('/v1/health', { token: null })
  assert.equal(status, 200)
  assert.deepEqual(Object.keys(json).toSorted(), ['bootId', 'runnerId', 'status', 'version'])
  assert.equal(json.status, 'ok')
  assert.equal(json.runnerId, runner.listening.runnerId)
  assert.equal(json.bootId, runner.listening.bootId)
})

test('config, metrics and the OpenAPI document require a token', LIMIT, async () => {
  const config = await runner.get('/v1/config')
  assert.equal(config.status, 200)
  assert.equal(config.json.isolation.level, runner.level)
  assert.equal(config.json.bootId, runner.listening.bootId)
  assert.ok(config.json.limits)
  const metrics = await runner.get('/metrics')
  assert.match(metrics.headers['content-type'] ?? '', /^text\/plain/)
  for (const line of metrics.text.split('\n'))
    assert.match(line, /^$|^# (HELP|TYPE) |^[a-z_:]+(\{[^}]*\})? -?[0-9.e+]+(Inf|NaN)?$/i)
  const { json: api } = await runner.get('/v1/openapi.json')
  assert.match(api.openapi, /^3\./)
  const routes = Object.keys(api.paths).map((path) => path.replaceAll(/\{[^}]+\}/g, '{}'))
  for (const [path, ...methods] of ROUTES) {
    const at = routes.indexOf((path ?? '').replaceAll(/\{[^}]+\}/g, '{}'))
    assert.ok(at >= 0, `${String(path)} is not in ${routes.join(' ')}`)
    for (const method of methods)
      assert.ok(Object.values<Json>(api.paths)[at][method.toLowerCase()], `${method} ${String(path)}`)
  }
})

const ROUTES = [
  ['/v1/health', 'GET'],
  ['/v1/config', 'GET'],
  ['/metrics', 'GET'],
  ['/v1/{prefix}/boxes', 'GET', 'POST'],
  ['/v1/{prefix}/boxes/{id}', 'GET', 'DELETE'],
  ['/v1/{prefix}/boxes/{id}/start', 'POST'],
  ['/v1/{prefix}/boxes/{id}/stop', 'POST'],
  ['/v1/{prefix}/boxes/{id}/exec', 'POST'],
  ['/v1/{prefix}/boxes/{id}/execs', 'GET'],
  ['/v1/{prefix}/boxes/{id}/execs/{execId}', 'GET'],
  ['/v1/{prefix}/boxes/{id}/execs/{execId}/events', 'GET'],
  ['/v1/{prefix}/boxes/{id}/execs/{execId}/output/{stream}', 'GET'],
  ['/v1/{prefix}/boxes/{id}/execs/{execId}/wait', 'GET'],
  ['/v1/{prefix}/boxes/{id}/execs/{execId}/stdin', 'POST'],
  ['/v1/{prefix}/boxes/{id}/execs/{execId}/signal', 'POST'],
  ['/v1/{prefix}/boxes/{id}/execs/{execId}/kill', 'POST'],
  ['/v1/{prefix}/boxes/{id}/files', 'GET'],
  ['/v1/{prefix}/boxes/{id}/files/{path}', 'GET', 'PUT', 'DELETE'],
] as const

test('without a valid token every route but health is a 401 that reveals nothing', LIMIT, async () => {
  const box = await runner.box()
  const bare = (json: Json): Json => ({ ...json, requestId: '', at: '' })
  const first = bare(assertProblem(await runner.get('/v1/config', { token: null }), 401, 'unauthorized'))
  for (const token of [null, 'wrong', '', `${runner.token}x`, runner.token.slice(1)])
    for (const [template, ...methods] of ROUTES.slice(1))
      for (const method of methods) {
        const path = template
          .replace('{prefix}', 'default')
          .replace('{id}', box)
          .replaceAll(/\{[^}]+\}/g, 'x')
        const answer = await runner.ask(method, path, { token, ...(method === 'POST' ? { json: {} } : {}) })
        assert.deepEqual(bare(assertProblem(answer, 401, 'unauthorized')), first)
      }
  for (const path of [`${BOXES}/none`, '/v1/nowhere', '/', '/v1/openapi.json'])
    assert.deepEqual(bare(assertProblem(await runner.get(path, { token: null }), 401, 'unauthorized')), first)
  for (const authorization of [`Basic ${runner.token}`, runner.token, `Bearer  `, `Bearer ${runner.token} x`])
    assertProblem(await runner.get(BOXES, { token: null, headers: { authorization } }), 401, 'unauthorized')
})

test('a token bound to prefixes gets 404 elsewhere, and tenants do not see each other', LIMIT, async () => {
  await using tenants = new WireRunner({ flags: PROCESS })
  const [everywhere, one, two] = ['e'.repeat(24), 'a'.repeat(24), 'b'.repeat(24)]
  writeFileSync(tenants.tokenFile, `${everywhere}\n${one} alpha\n${two} beta gamma\n`, { mode: 0o600 })
  await tenants.start()
  const create = (prefix: string, token: string) => tenants.post(`/v1/${prefix}/boxes`, { id: 'same' }, { token })
  assert.equal((await create('alpha', one)).status, 201)
  assert.equal((await create('beta', two)).status, 201)
  assert.equal((await create('gamma', two)).status, 201)
  assert.equal((await create('default', everywhere)).status, 201)
  for (const [prefix, token] of [
    ['beta', one],
    ['default', one],
    ['alpha', two],
  ] as const) {
    const box = `/v1/${prefix}/boxes/same`
    for (const answer of [
      await tenants.get(`/v1/${prefix}/boxes`, { token }),
      await create(prefix, token),
      await tenants.get(box, { token }),
      await tenants.get(`${box}/execs/e`, { token }),
      await tenants.post(`${box}/exec`, { shell: 'true' }, { token }),
      await tenants.delete(box, { token }),
    ])
      assertProblem(answer, 404, answer.json.category === 'box_not_found' ? 'box_not_found' : 'not_found')
    const shape = async (id: string): Promise<string> =>
      (await tenants.get(`/v1/${prefix}/boxes/${id}`, { token })).json.error.replaceAll(id, 'ID')
    assert.equal(await shape('same'), await shape('missing'), 'its existence is not revealed')
  }
  const exec = await tenants.post('/v1/beta/boxes/same/exec', { execId: 'e', shell: 'echo beta' }, { token: two })
  assert.equal(exec.status, 201)
  assertProblem(await tenants.get('/v1/alpha/boxes/same/execs/e', { token: one }), 404, 'exec_not_found')
  assert.equal((await tenants.delete('/v1/alpha/boxes/same', { token: one })).status, 204)
  assert.equal((await tenants.get('/v1/beta/boxes/same', { token: two })).json.state, 'running')
})

test('an unknown route is 404, and a wrong method is 405 with the allowed methods', LIMIT, async () => {
  for (const path of [
    '/',
    '/v1',
    '/v2/health',
    '/v1/default',
    `${BOXES}/b/nothing`,
    '/v1/default/boxes/b/execs/e/nothing',
  ])
    assertProblem(await runner.get(path), 404, 'not_found')
  for (const [path, method, allowed] of [
    [BOXES, 'PUT', ['GET', 'POST']],
    [`${BOXES}/b`, 'POST', ['DELETE', 'GET']],
    [`${BOXES}/b/exec`, 'GET', ['POST']],
    ['/v1/health', 'DELETE', ['GET']],
    [`${BOXES}/b/execs/e/kill`, 'GET', ['POST']],
  ] as const) {
    const answer = await runner.ask(method, path)
    const problem = assertProblem(answer, 405, 'method_not_allowed')
    const names = (answer.headers.allow ?? '').split(/, ?/)
    for (const name of allowed) {
      assert.ok(names.includes(name), `${path}: ${names.join()}`)
      assert.ok(problem.detail.includes(name), problem.detail)
    }
    assert.ok(!names.includes(method))
  }
})

test(
  'a body that is too large is 413 with the limit, and another type is 415 with the expected type',
  LIMIT,
  async () => {
    const before = await boxIds()
    const large = assertProblem(await runner.post(BOXES, { id: 'x'.repeat(1_100_000) }), 413, 'payload_too_large')
    assert.match(large.detail, /1048576|1 MiB/)
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonx']) {
      const answer = await runner.ask('POST', BOXES, { body: '{}', headers: { 'content-type': type } })
      assert.match(assertProblem(answer, 415, 'unsupported_media_type').detail, /application\/json/)
    }
    assertProblem(await runner.ask('POST', BOXES, { body: '{"id":"untyped"}' }), 415, 'unsupported_media_type')
    assert.deepEqual(await boxIds(), before)
  },
)

test('a body that is not a JSON object is 400', LIMIT, async () => {
  const before = await boxIds()
  const headers = { 'content-type': 'application/json' }
  for (const body of ['{', '[]', '"x"', 'null', '1', '{"id":"a"}}', Buffer.from([0x7b, 0xff, 0x7d])])
    assertProblem(await runner.ask('POST', BOXES, { body, headers }), 400, 'invalid_request')
  assert.deepEqual(await boxIds(), before)
})

for (const [what, body, field] of [
  ['an unknown field', { colour: 'red' }, 'colour'],
  ['an unknown limit', { limits: { disk: 1 } }, 'limits.disk'],
  ['an unknown isolation field', { isolation: { max: 'bwrap' } }, 'isolation.max'],
  ['memory below zero', { limits: { memoryMb: -1 } }, 'limits.memoryMb'],
  ['memory below the least', { limits: { memoryMb: 15 } }, 'limits.memoryMb'],
  ['memory beyond the most', { limits: { memoryMb: 65_537 } }, 'limits.memoryMb'],
  ['half a megabyte of memory', { limits: { memoryMb: 64.5 } }, 'limits.memoryMb'],
  ['memory as text', { limits: { memoryMb: '64' } }, 'limits.memoryMb'],
  ['no pids', { limits: { pids: 0 } }, 'limits.pids'],
  ['pids that are no number', { limits: { pids: 'many' } }, 'limits.pids'],
  ['no cpus', { limits: { cpus: 0 } }, 'limits.cpus'],
  ['cpus below zero', { limits: { cpus: -1 } }, 'limits.cpus'],
  ['no execs', { limits: { execsMax: 0 } }, 'limits.execsMax'],
  ['half an exec', { limits: { execsMax: 1.5 } }, 'limits.execsMax'],
  ['limits that are a list', { limits: [] }, 'limits'],
  ['another network', { network: 'bridge' }, 'network'],
  ['another isolation level', { isolation: { min: 'vm' } }, 'isolation.min'],
  ['autoStart as text', { autoStart: 'yes' }, 'autoStart'],
  ['an environment of numbers', { env: { A: 1 } }, 'env.A'],
  ['an environment name with =', { env: { 'A=B': '1' } }, 'env.A=B'],
  ['an empty environment name', { env: { '': '1' } }, 'env'],
  ['a NUL in the environment', { env: { A: 'x\0y' } }, 'env.A'],
  ['a relative workspace', { workspace: 'here' }, 'workspace'],
  ['an id that climbs', { id: '../b' }, 'id'],
  ['an id that is a folder', { id: '..' }, 'id'],
  ['an empty id', { id: '' }, 'id'],
  ['an endless id', { id: 'x'.repeat(400) }, 'id'],
  ['an id of another type', { id: 7 }, 'id'],
] as const)
  test(`a box with ${what} is refused with the field's name and not created`, LIMIT, async () => {
    const before = await boxIds()
    const problem = assertProblem(await runner.post(BOXES, body), 400, 'invalid_request')
    const errors: Json[] = problem.errors
    const error = errors.find((one) => one.field === field || (field === 'env' && one.field.startsWith('env')))
    assert.ok(error, `${field} is not in ${JSON.stringify(errors)}`)
    assert.equal(typeof error.expected, 'string')
    assert.equal(typeof error.got, 'string')
    assert.deepEqual(await boxIds(), before)
  })

test('a bad limit says what was expected and what was sent', LIMIT, async () => {
  const { json } = await runner.post(BOXES, { limits: { memoryMb: -1 } })
  assert.deepEqual(json.errors, [{ field: 'limits.memoryMb', expected: 'an integer from 16 to 65536', got: '-1' }])
})

test('all bad fields of a request are named at once', LIMIT, async () => {
  const { json } = await runner.post(BOXES, { limits: { memoryMb: -1, pids: 0 }, network: 'x', colour: 1 })
  assert.deepEqual(json.errors.map((error: Json) => error.field).toSorted(), [
    'colour',
    'limits.memoryMb',
    'limits.pids',
    'network',
  ])
})

test('an unknown query parameter is refused by name', LIMIT, async () => {
  const problem = assertProblem(await runner.get(`${BOXES}?colour=red`), 400, 'invalid_request')
  assert.ok(problem.errors.some((error: Json) => error.field.includes('colour')))
})

test(
  'a foreign Host or Origin is forbidden even with a valid token, and loopback names are allowed',
  LIMIT,
  async () => {
    const { port } = new URL(runner.url)
    for (const host of ['evil.example', `evil.example:${port}`, '127.0.0.1.evil.example', `169.254.169.254:${port}`])
      for (const path of ['/v1/health', BOXES])
        assertProblem(await runner.get(path, { headers: { host } }), 403, 'forbidden')
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`])
      assert.equal((await runner.get(BOXES, { headers: { host } })).status, 200)
    assertProblem(await runner.get(BOXES, { headers: { origin: 'http://evil.example' } }), 403, 'forbidden')
    assertProblem(await runner.get(BOXES, { headers: { origin: 'null' } }), 403, 'forbidden')
    const preflight = await runner.ask('OPTIONS', BOXES, { token: null, headers: { origin: 'http://evil.example' } })
    assert.equal(preflight.headers['access-control-allow-origin'], undefined)
  },
)

test('garbage on the socket is answered or closed, and the runner keeps running', LIMIT, async () => {
  const { host } = new URL(runner.url)
  const authorization = `Authorization: Bearer ${runner.token}`
  const head = (line: string, more = ''): string =>
    `${line}\r\nHost: ${host}\r\n${authorization}\r\nConnection: close\r\n${more}\r\n`
  for (const bytes of [
    'hello\r\n\r\n',
    head('GET /v1/%ff/boxes HTTP/1.1'),
    head('GET /v1/default/boxes/%E0%A4%A HTTP/1.1'),
    head('GET /v1/default/boxes/%00 HTTP/1.1'),
    head('GET //v1//health HTTP/1.1'),
    head('GET /v1/health HTTP/1.1', `X-Long: ${'x'.repeat(100_000)}\r\n`),
    head('POST /v1/default/boxes HTTP/1.1', 'Content-Type: application/json\r\nContent-Length: -5\r\n'),
    `GET /v1/health HTTP/1.1\r\nConnection: close\r\n\r\n`,
  ]) {
    const status = /^HTTP\/1\.1 (\d+)/.exec(await runner.raw(bytes))?.[1] ?? 'closed'
    assert.match(status, /^(4\d\d|closed)$/, bytes.slice(0, 80))
  }
  assert.equal((await runner.get('/v1/health')).status, 200)
})

test('another runner’s id is 421 on every call that changes something, and nothing changes', LIMIT, async () => {
  const box = await runner.box()
  const started = await runner.post(`${BOXES}/${box}/exec`, { execId: 'live', shell: 'cat', stdin: 'pipe' })
  assert.equal(started.status, 201)
  const headers = { 'x-breakfall-runner': 'somebody-else' }
  for (const [method, path, ask] of [
    ['POST', BOXES, { json: { id: 'not-made' } }],
    ['POST', `${BOXES}/${box}/stop`, { json: {} }],
    ['POST', `${BOXES}/${box}/exec`, { json: { execId: 'not-run', shell: 'touch ran' } }],
    ['PUT', `${BOXES}/${box}/files/not-written`, { body: 'x' }],
    ['POST', `${BOXES}/${box}/execs/live/signal`, { json: { signal: 'SIGKILL' } }],
    ['POST', `${BOXES}/${box}/execs/live/stdin?eof=1`, { body: 'x' }],
    ['POST', `${BOXES}/${box}/execs/live/kill`, { json: {} }],
    ['DELETE', `${BOXES}/${box}`, {}],
  ] as const)
    assertProblem(await runner.ask(method, path, { ...ask, headers }), 421, 'runner_identity_mismatch')
  assert.ok(!(await boxIds()).includes('not-made'))
  assert.equal((await runner.get(`${BOXES}/${box}`)).json.state, 'running')
  assert.notEqual((await runner.get(`${BOXES}/${box}/execs/live`)).json.state, 'exited')
  assert.equal(await runner.shell(box, 'ls -A'), '')
  assertProblem(await runner.get(`${BOXES}/${box}/execs/not-run`), 404, 'exec_not_found')
  const own = { 'x-breakfall-runner': runner.listening.runnerId }
  assert.equal((await runner.delete(`${BOXES}/${box}`, { headers: own })).status, 204)
})

test('an epoch lower than one seen for that box is 409 lease_lost, and nothing changes', LIMIT, async () => {
  const [box, other] = [await runner.box(), await runner.box()]
  const epoch = (value: string) => ({ headers: { 'x-breakfall-epoch': value } })
  const exec = (id: string, of: string, value: string) =>
    runner.post(`${BOXES}/${of}/exec`, { execId: id, shell: `touch ${id}` }, epoch(value))
  assert.equal((await exec('e5', box, '5')).status, 201)
  await runner.wait(box, 'e5')
  assertProblem(await exec('e4', box, '4'), 409, 'lease_lost')
  assertProblem(await runner.post(`${BOXES}/${box}/stop`, {}, epoch('4')), 409, 'lease_lost')
  assertProblem(await runner.put(`${BOXES}/${box}/files/f`, 'x', epoch('4')), 409, 'lease_lost')
  assertProblem(await runner.delete(`${BOXES}/${box}`, epoch('4')), 409, 'lease_lost')
  assertProblem(await exec('e4', box, '4'), 409, 'lease_lost')
  assertProblem(await runner.get(`${BOXES}/${box}/execs/e4`), 404, 'exec_not_found')
  assert.equal((await exec('other', other, '1')).status, 201)
  assert.equal((await exec('again', box, '5')).status, 201)
  await runner.wait(box, 'again')
  const refused = { ...epoch('9'), headers: { 'x-breakfall-epoch': '9', 'x-breakfall-runner': 'somebody-else' } }
  assertProblem(await runner.put(`${BOXES}/${box}/files/f`, 'x', refused), 421, 'runner_identity_mismatch')
  assert.equal((await exec('e6', box, '6')).status, 201, 'a refused call leaves no epoch behind')
  await runner.wait(box, 'e6')
  assert.deepEqual((await runner.shell(box, 'ls -A')).split('\n').filter(Boolean).toSorted(), ['again', 'e5', 'e6'])
  for (const wrong of ['x', '-1', '1.5', ''])
    assertProblem(await runner.put(`${BOXES}/${box}/files/f`, 'x', epoch(wrong)), 400, 'invalid_request')
})
