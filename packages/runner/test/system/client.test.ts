/** The client of a runner: what it refuses by itself, and how it goes on where connections do not. */
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { describe, test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { createRunnerClient, type RunnerClient } from '../../src/client/index.ts'
import { inProcess, type TestRunner, withoutBwrap } from '../kit.ts'

describe('the client', { skip: withoutBwrap }, async () => {
  test('a path with dots in it never leads to another box, from the client or over raw HTTP', async (t) => {
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
        await assert.rejects(call(), { category: 'invalid_request' } as never)
    await assert.rejects(client.deleteFile('mine', '../../other'), { category: 'invalid_request' } as never)
    await assert.rejects(client.removeBox('../boxes/other'), { category: 'box_not_found' } as never)
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

  test('whatever goes wrong is a Fault', async (t) => {
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

const CALLS: Readonly<Record<string, (client: RunnerClient) => Promise<unknown>>> = {
  'no such box': (client) => client.getBox('none'),
  'an empty id': (client) => client.getBox(''),
  'half a character': (client) => client.getBox('\ud800'),
  'no path': (client) => client.readFile('none', undefined as unknown as string),
  'a body that is no JSON': (client) => client.createBox({ id: 1n } as never),
  'a range backwards': (client) => client.execOutput('none', 'none', 'stdout', { from: 5, to: 1 }),
  'a signal that is none': (client) => client.signalExec('none', 'none', 'SIGNOT'),
  'a signal that has fired': (client) => client.health({ signal: AbortSignal.abort() }),
}

/** A call with its path as it stands: `fetch` would tidy it up. Answers the status. */
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
