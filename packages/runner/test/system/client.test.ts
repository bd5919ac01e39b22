/** The runner's client: what it refuses itself, and how it continues after lost connections. */
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { isFault } from '@breakfall/faults'
import type { ExecEvent } from '@breakfall/wire'
import { createRunnerClient, type RunnerClient } from '../../src/client/index.ts'
import { inProcess, type TestRunner, withoutBwrap } from '../kit.ts'

describe('the client', { skip: withoutBwrap }, async () => {
  test('a path with dots never leads to another box, from the client or over raw HTTP', async (t) => {
    const runner = await inProcess(t)
    for (const id of ['mine', 'other']) await runner.box({ id })
    await runner.client.writeFile('other', 'secret', Buffer.from('not yours'))
    const { client } = runner
    for (const path of ['../../other/files/secret', 'a/../../../other/files/secret', '..', '../execs'])
      for (const call of [
        () => client.readFile('mine', path),
        () => client.writeFile('mine', path, Buffer.from('x')),
        () => client.deleteFile('mine', path),
      ])
        await assert.rejects(call(), { category: 'invalid_request' })
    await assert.rejects(client.deleteFile('mine', '../../other'), { category: 'invalid_request' })
    await assert.rejects(client.removeBox('../boxes/other'), { category: 'box_not_found' })
    for (const dots of ['..', '%2e%2e'])
      for (const [method, end] of [
        ['GET', '/files/secret'],
        ['PUT', '/files/secret'],
        ['DELETE', ''],
        ['GET', ''],
      ] as const)
        assert.equal(await asWritten(runner, method, `mine/files/${dots}/${dots}/other${end}`), 400, `${method} ${end}`)
    assert.equal((await client.readFile('other', 'secret')).bytes.toString(), 'not yours')
  })

  test('over connections that are cut at random bytes, events are complete and in order, the wait ends, and only Faults are thrown', async (t) => {
    const runner = await inProcess(t)
    const seed = 20_261_116
    t.diagnostic(`seed ${seed}`)
    const line = await cutLine(t, runner.url, seed)
    const client = createRunnerClient({ url: line.url, token: runner.token, dice: () => 0 })
    t.after(() => client.close())
    await runner.box({ id: 'b1' })
    const shell =
      'for i in $(seq 1000); do echo "line $i"; printf "\\377\\376$i" >&2; [ $((i % 5)) = 0 ] && sleep 0.001; done; exit 7'
    await runner.client.startExec('b1', { execId: 'e1', shell })
    const events: ExecEvent[] = []
    let last = ''
    for await (const event of client.execEvents('b1', 'e1')) {
      last = event.type === 'fault' ? `fault ${event.fault.category}` : event.type
      if (event.type !== 'fault') events.push(event)
    }
    assert.equal(last, 'exit')
    assert.ok(line.cuts() > 3, `${line.cuts()} cuts`)
    const whole = await runner.events('b1', 'e1')
    assert.deepEqual(events, JSON.parse(JSON.stringify(whole)), 'what came over the line is what the runner has')
    assert.equal((await client.waitExec('b1', 'e1')).exit?.code, 7)
    for (let tries = 0; tries < 40; tries += 1)
      await client.readFile('b1', 'none').then(
        () => assert.fail('there is no such file'),
        (error: unknown) => assert.ok(isFault(error), String(error)),
      )
  })

  test('every failure is a Fault', async (t) => {
    const runner = await inProcess(t)
    const clients = ['http://127.0.0.1:9', 'not a url', 'ftp://127.0.0.1', `${runner.url}/no/such/base`].map((url) =>
      createRunnerClient({ url, token: runner.token }),
    )
    const odd = createRunnerClient({ url: runner.url, token: 'a\nb', prefix: '..' })
    for (const client of [...clients, odd, runner.client])
      for (const [what, call] of Object.entries(CALLS)) {
        const outcome = await call(client).then(
          () => 'answered',
          (error: unknown) => (isFault(error) ? error.category : `not a fault: ${String(error)}`),
        )
        assert.match(outcome, /^[a-z_]+$/, what)
        assert.notEqual(outcome, 'answered', what)
      }
    await Promise.all([...clients, odd].map((client) => client.close()))
  })
})

/**
 * A proxy to `url` that cuts each connection after a few hundred to about a thousand bytes of the response. On a slow machine an event
 * can be larger than that: each time the same event is asked for again, twice as much passes.
 */
async function cutLine(t: TestContext, url: string, seed: number): Promise<{ url: string; cuts: () => number }> {
  const { hostname, port } = new URL(url)
  let state = seed
  let cuts = 0
  let [asked, again] = ['', 0]
  const next = (): number => (state = (state * 48_271) % 2_147_483_647)
  const server = createServer((near) => {
    const far = connect(Number(port), hostname)
    let left = 300 + (next() % 1_200)
    for (const socket of [near, far]) {
      socket.on('error', () => {}) // cut on purpose
      socket.on('close', () => [near, far].forEach((each) => each.destroy()))
    }
    near.once('data', (head: Buffer) => {
      const [cursor = ''] = /after=\d+/.exec(head.toString()) ?? []
      again = cursor !== '' && cursor === asked ? again + 1 : 0
      asked = cursor
      left *= 2 ** again
    })
    near.pipe(far)
    far.on('data', (chunk: Buffer) => {
      if (chunk.length < left) {
        left -= chunk.length
        near.write(chunk)
        return
      }
      cuts += 1
      near.write(chunk.subarray(0, left), () => (next() % 2 === 0 ? near.resetAndDestroy() : near.destroy()))
      far.destroy()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, cuts: () => cuts }
}

/** Calls a method with arguments that its types forbid. */
const callWith = (client: object, method: string, args: readonly unknown[]): Promise<unknown> =>
  Reflect.apply(Reflect.get(client, method), client, args)

const CALLS: Readonly<Record<string, (client: RunnerClient) => Promise<unknown>>> = {
  'no such box': (client) => client.getBox('none'),
  'an empty id': (client) => client.getBox(''),
  'half a character': (client) => client.getBox('\ud800'),
  'no path': (client) => callWith(client, 'readFile', ['none', undefined]),
  'a body that is not JSON': (client) => callWith(client, 'createBox', [{ id: 1n }]),
  'a range backwards': (client) => client.execOutput('none', 'none', 'stdout', { from: 5, to: 1 }),
  'a signal that is none': (client) => client.signalExec('none', 'none', 'SIGNOT'),
  'a signal that has fired': (client) => client.health({ signal: AbortSignal.abort() }),
}

/** Sends the path unchanged (`fetch` would normalize it) and returns the status. */
function asWritten(runner: TestRunner, method: string, path: string): Promise<number | undefined> {
  const { hostname, port } = new URL(runner.url)
  const headers = { authorization: `Bearer ${runner.token}` }
  return new Promise((resolve, reject) => {
    const call = request({ hostname, port, method, path: `/v1/default/boxes/${path}`, headers }, (answer) => {
      answer.resume()
      resolve(answer.statusCode)
    })
    call.on('error', reject)
    call.end()
  })
}
