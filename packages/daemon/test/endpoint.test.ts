import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { isFault } from '@breakfall/faults'
import { RunnerEndpoint } from '../src/runner/endpoint.ts'
import { afterwards, tempFolder } from './support/setup.ts'

const never = new AbortController().signal

/** Something that says who it is, and counts how often it was asked. */
async function identity(t: TestContext, runnerId: string): Promise<{ url: string; asked: () => number }> {
  let asked = 0
  const server = createServer((_, res) => {
    asked += 1
    res.setHeader('content-type', 'application/json')
    res.end(JSON.stringify({ status: 'ok', runnerId, bootId: 'b', version: '0' }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterwards(t, () => new Promise((resolve) => server.close(resolve)))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked: () => asked }
}

const endpoint = (t: TestContext, config: () => object): RunnerEndpoint =>
  new RunnerEndpoint({ stateDir: tempFolder(t), config: () => Promise.resolve(config()) })

test('many who need the runner at once cause one look-up', async (t) => {
  const runner = await identity(t, 'r1')
  const where = endpoint(t, () => ({ url: runner.url }))
  await Promise.all(Array.from({ length: 50 }, () => where.connect(null, 1, never)))
  assert.equal(runner.asked(), 1)
  where.forget()
  assert.deepEqual(await Promise.all(Array.from({ length: 50 }, () => where.probe('r1'))), Array(50).fill(true))
  assert.equal(runner.asked(), 2, 'parked turns that look at the same time share a look')
})

test('a runner that is another one is refused by name, and the next look may find the right one', async (t) => {
  const [stranger, mine] = [await identity(t, 'stranger'), await identity(t, 'mine')]
  let url = stranger.url
  const where = endpoint(t, () => ({ url }))
  await assert.rejects(
    where.connect('mine', 1, never),
    (error) => isFault(error) && error.category === 'runner_identity_mismatch',
  )
  url = mine.url
  assert.equal((await where.connect('mine', 1, never)).place.url, mine.url)
})

test("one caller's cancel does not end the look-up for the others", async (t) => {
  const runner = await identity(t, 'r1')
  const where = endpoint(t, () => ({ url: runner.url }))
  const mine = new AbortController()
  const cancelled = where.connect(null, 1, mine.signal)
  const other = where.connect(null, 1, never)
  mine.abort()
  await assert.rejects(cancelled, (error) => isFault(error) && error.category === 'cancelled')
  assert.equal((await other).place.runnerId, 'r1')
})
