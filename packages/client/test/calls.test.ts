/** Calls: what is sent, what comes back, and how a failure reads. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, isFault, toProblem } from '@breakfall/faults'
import { DaemonClient } from '../src/index.ts'
import { RECONNECT_POLICY } from '../src/limits.ts'
import { FakeDaemon, json, SESSION } from './fake-daemon.ts'

const QUICK = { random: () => 0, policy: { ...RECONNECT_POLICY, attemptsMax: 3 } }

test('problem+json becomes the fault that the daemon reported', async () => {
  const problem = toProblem(new Fault('session_busy', { turnId: 't1' }))
  await using daemon = await FakeDaemon.start((response) => json(response, problem.status, problem))
  const asking = new DaemonClient({ url: daemon.url, token: 'x' }).prompt('s1', 'do it')
  await assert.rejects(asking, (error) => {
    assert.ok(isFault(error))
    assert.equal(error.category, 'session_busy')
    assert.equal(error.error, problem.error)
    assert.equal(error.report.turnId, 't1')
    return true
  })
  assert.equal(daemon.requests.length, 1, 'a busy session is not asked again')
})

test('a rejected token names where the token came from', async () => {
  await using daemon = await FakeDaemon.start((response) =>
    json(response, 401, toProblem(new Fault('unauthorized', { error: 'no' }))),
  )
  const client = new DaemonClient({ url: daemon.url, token: 'x', tokenSource: '/state/token' })
  await assert.rejects(client.sessions(), /rejected the token from \/state\/token/)
})

test('each prompt has a new idempotency key, and its retries have the same one', async () => {
  await using daemon = await FakeDaemon.start((response, _request, index) => {
    if (index === 0) response.destroy()
    else json(response, 202, { turnId: 't1', seq: 1 })
  })
  const client = new DaemonClient({ url: daemon.url, token: 'secret' }, QUICK)
  assert.deepEqual(await client.prompt('s1', 'do it'), { turnId: 't1', seq: 1 })
  await client.prompt('s1', 'do it')
  await client.prompt('s1', 'do it', { key: 'mine', queue: true })
  const keys = daemon.requests.map(({ headers }) => headers['idempotency-key'])
  assert.equal(keys[0], keys[1])
  assert.notEqual(keys[1], keys[2])
  assert.equal(keys[3], 'mine')
  assert.deepEqual(
    daemon.requests.map(({ body }) => body),
    ['{"prompt":"do it"}', '{"prompt":"do it"}', '{"prompt":"do it"}', '{"prompt":"do it","queue":true}'],
  )
  assert.equal(daemon.requests[0]?.headers.authorization, 'Bearer secret')
})

test('a client that does not retry calls fails at once', async () => {
  await using daemon = await FakeDaemon.start((response) => void response.destroy())
  const client = new DaemonClient({ url: daemon.url, token: 'x' }, { ...QUICK, retryCalls: false })
  await assert.rejects(client.session('s1'), (error) => isFault(error) && error.category === 'daemon_unreachable')
  assert.equal(daemon.requests.length, 1)
})

test('a daemon that has moved is asked at its new address', async () => {
  await using old = await FakeDaemon.start((response) => void response.destroy())
  await using moved = await FakeDaemon.start((response) => json(response, 200, SESSION))
  const client = new DaemonClient(
    { url: old.url, token: 'x' },
    {
      ...QUICK,
      locate: (fault) => Promise.resolve({ url: fault.category === 'daemon_unreachable' ? moved.url : '', token: 'y' }),
    },
  )
  assert.equal((await client.session('s1')).id, 's1')
  assert.equal(client.url, moved.url)
  assert.equal(moved.requests[0]?.headers.authorization, 'Bearer y')
})

test('an answer in another form is a fault that says what was expected', async () => {
  await using daemon = await FakeDaemon.start((response) => json(response, 200, { ...SESSION, lastSeq: 'seven' }))
  const client = new DaemonClient({ url: daemon.url, token: 'x' })
  await assert.rejects(client.session('s1'), /sent a session in a form that this client cannot read/)
  assert.equal(daemon.requests.length, 1)
})

test('all pages of the session list are read', async () => {
  await using daemon = await FakeDaemon.start((response, { path }) =>
    json(
      response,
      200,
      path.includes('cursor=p2') ? { sessions: [{ ...SESSION, id: 's2' }] } : { sessions: [SESSION], next: 'p2' },
    ),
  )
  const sessions = await new DaemonClient({ url: daemon.url, token: 'x' }).sessions()
  assert.deepEqual(
    sessions.map(({ id }) => id),
    ['s1', 's2'],
  )
})

test('a daemon that is not ready is an answer, with the checks that failed', async () => {
  await using daemon = await FakeDaemon.start((response) =>
    json(response, 503, { status: 'not_ready', checks: { journal: true, runner: 'unreachable' } }),
  )
  const ready = await new DaemonClient({ url: daemon.url, token: 'x' }).ready()
  assert.deepEqual(ready, { isReady: false, checks: { journal: true, runner: 'unreachable' } })
})

test('the signal of the client ends a call as cancelled; a call that takes too long is unreachable', async () => {
  await using daemon = await FakeDaemon.start(() => undefined)
  const address = { url: daemon.url, token: 'x' }
  const stopped = new DaemonClient(address, { signal: AbortSignal.abort() })
  await assert.rejects(stopped.session('s1'), (error) => isFault(error) && error.category === 'cancelled')
  const slow = new DaemonClient(address, { callMs: 50, retryCalls: false })
  await assert.rejects(slow.session('s1'), (error) => isFault(error) && error.category === 'daemon_unreachable')
})

test('an answer that is cut off is a fault, and is asked for again with the same key', async () => {
  await using daemon = await FakeDaemon.start((response, _request, index) => {
    if (index > 0) return json(response, 202, { turnId: 't1', seq: 1 })
    response.writeHead(202, { 'content-type': 'application/json', 'content-length': 1000 })
    response.write('{"turnId":', () => response.destroy())
  })
  const address = { url: daemon.url, token: 'x' }
  const client = new DaemonClient(address, { random: () => 0, sleep: async () => undefined })
  assert.deepEqual(await client.prompt('s1', 'go'), { turnId: 't1', seq: 1 })
  const [first, second] = daemon.requests.map(({ headers }) => headers['idempotency-key'])
  assert.ok(first)
  assert.equal(second, first)
  await using dying = await FakeDaemon.start((response) => {
    response.writeHead(200, { 'content-length': 1000 })
    response.write('{', () => response.destroy())
  })
  const once = new DaemonClient({ url: dying.url, token: 'x' }, { retryCalls: false })
  await assert.rejects(once.session('s1'), (error) => isFault(error) && error.category === 'daemon_unreachable')
})

test('a redirect to another address does not take the token along, and the fault names that address', async () => {
  await using other = await FakeDaemon.start((response, { headers }) =>
    json(response, headers.authorization === undefined ? 401 : 200, SESSION),
  )
  await using balancer = await FakeDaemon.start((response, { path }) => {
    response.writeHead(307, { location: `${other.url}${path}` }).end()
  })
  const client = new DaemonClient({ url: balancer.url, token: 'x' })
  for (const call of [() => client.session('s1'), () => client.prompt('s1', 'go'), () => client.events('s1').next()])
    await assert.rejects(call, (error) => {
      assert.ok(isFault(error))
      assert.equal(error.category, 'unauthorized')
      assert.ok(error.message.includes(`redirects to ${other.url}`), error.message)
      return true
    })
  assert.ok(other.requests.every(({ headers }) => headers.authorization === undefined))
})

test('an output whose beginning is no longer kept says where it begins', async () => {
  await using daemon = await FakeDaemon.start((response, _request, index) => {
    if (index === 0) response.writeHead(200).end('whole')
    else response.writeHead(206, { 'content-range': 'bytes 12-15/16' }).end('rest')
  })
  const client = new DaemonClient({ url: daemon.url, token: 'x' })
  const [whole, rest] = [await client.output('s1', 'e1', 'stdout'), await client.output('s1', 'e1', 'stdout')]
  assert.deepEqual([whole.from, await new Response(whole).text()], [0, 'whole'])
  assert.deepEqual([rest.from, await new Response(rest).text()], [12, 'rest'])
})
