import { tempFolder, atEnd } from '../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { isFault } from '@breakfall/faults'
import { readProcess } from '@breakfall/supervisor/platform'
import { RunnerEndpoint } from '../src/runner/endpoint.ts'

const never = new AbortController().signal
const skip = process.getuid?.() !== 0 && 'this needs root'

/** Something that says who it is, and counts how often it was asked. */
async function identity(t: TestContext, runnerId: string): Promise<{ url: string; asked: () => number }> {
  let asked = 0
  const server = createServer((_, res) => {
    asked += 1
    res.setHeader('content-type', 'application/json')
    res.end(JSON.stringify({ status: 'ok', runnerId, bootId: 'b', version: '0' }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => new Promise((resolve) => server.close(resolve)))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked: () => asked }
}

const endpoint = (t: TestContext, config: () => object): RunnerEndpoint =>
  new RunnerEndpoint({ stateDir: tempFolder(t), config: () => Promise.resolve(config()) })

test('many turns that need the runner at once cause one look-up', async (t) => {
  const runner = await identity(t, 'r1')
  const where = endpoint(t, () => ({ url: runner.url }))
  await Promise.all(Array.from({ length: 50 }, () => where.connect(null, 1, never)))
  assert.equal(runner.asked(), 1)
  where.forget()
  assert.deepEqual(await Promise.all(Array.from({ length: 50 }, () => where.probe('r1'))), Array(50).fill(true))
  assert.equal(runner.asked(), 2, 'parked turns that look at the same time share a look')
})

test('a runner with another identity is refused, and the next look-up may find the right one', async (t) => {
  const [stranger, mine] = [await identity(t, 'stranger'), await identity(t, 'mine')]
  let url = stranger.url
  const where = endpoint(t, () => ({ url }))
  await assert.rejects(
    where.connect('mine', 1, never),
    (error) => isFault(error) && error.category === 'runner_identity_mismatch',
  )
  url = mine.url
  assert.equal((await where.connect('mine', 1, never)).address.url, mine.url)
})

test("one caller's cancel does not end the look-up for the others", async (t) => {
  const runner = await identity(t, 'r1')
  const where = endpoint(t, () => ({ url: runner.url }))
  const mine = new AbortController()
  const cancelled = where.connect(null, 1, mine.signal)
  const other = where.connect(null, 1, never)
  mine.abort()
  await assert.rejects(cancelled, (error) => isFault(error) && error.category === 'cancelled')
  assert.equal((await other).address.runnerId, 'r1')
})

test('the daemon waits for a live runner that does not answer: no second runner starts in its folder', async (t) => {
  const stateDir = tempFolder(t)
  const silent = createServer((_, res) => void res.destroy())
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => silent.close())
  const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
  const runner = { url, runnerId: 'mine', pid: process.pid, startTime: readProcess(process.pid)?.startTime }
  mkdirSync(join(stateDir, 'runner'))
  writeFileSync(join(stateDir, 'runner', 'runner.json'), JSON.stringify(runner))
  const program = ['sh', '-c', `touch ${stateDir}/started; exit 1`]
  const where = new RunnerEndpoint({ stateDir, program, config: () => Promise.resolve({}) })
  const categoryOf = (error: unknown): string => (isFault(error) ? error.category : String(error))
  assert.equal(await where.connect(null, 1, never).catch(categoryOf), 'runner_unreachable')
  assert.equal(existsSync(join(stateDir, 'started')), false)
  // Another process has its pid: it is gone.
  writeFileSync(join(stateDir, 'runner', 'runner.json'), JSON.stringify({ ...runner, startTime: 1 }))
  assert.equal(await where.connect(null, 1, never).catch(categoryOf), 'process_start_failed')
  assert.equal(existsSync(join(stateDir, 'started')), true)
})

test('a runner that is to be replaced is not ended by a pid that is another process by now', async (t) => {
  const stateDir = tempFolder(t)
  const other = spawn('sleep', ['60'])
  atEnd(t, () => other.kill('SIGKILL'))
  const { url } = await identity(t, 'mine')
  mkdirSync(join(stateDir, 'runner'))
  const runner = { url, runnerId: 'mine', pid: other.pid, startTime: 1 }
  writeFileSync(join(stateDir, 'runner', 'runner.json'), JSON.stringify(runner))
  const where = new RunnerEndpoint({ stateDir, program: ['false'], config: () => Promise.resolve({}) })
  await assert.rejects(where.connect(null, 1, never), (error) => isFault(error))
  assert.equal(other.exitCode ?? other.signalCode, null)
})

test('a program of another user at the address of a runner that is gone is asked nothing', { skip }, async (t) => {
  const stateDir = tempFolder(t)
  process.seteuid?.(65_534)
  const taken = await identity(t, 'mine').finally(() => process.seteuid?.(0))
  mkdirSync(join(stateDir, 'runner'))
  const runner = { url: taken.url, runnerId: 'mine', pid: 2 ** 22 + 1, startTime: 1 }
  writeFileSync(join(stateDir, 'runner', 'runner.json'), JSON.stringify(runner))
  const where = new RunnerEndpoint({ stateDir, program: ['false'], config: () => Promise.resolve({}) })
  await assert.rejects(where.connect(null, 1, never), (error) => isFault(error))
  assert.equal(taken.asked(), 0)
})

test('a daemon that exits ends the runner that a killed daemon left, but not another process with its pid', async (t) => {
  const stateDir = tempFolder(t)
  const left = spawn('sleep', ['60'])
  const ended = once(left, 'exit')
  atEnd(t, () => left.kill('SIGKILL'))
  const pid = left.pid as number
  const runner = { url: 'http://127.0.0.1:9', runnerId: 'mine', pid }
  const where = new RunnerEndpoint({ stateDir, config: () => Promise.resolve({}) })
  mkdirSync(join(stateDir, 'runner'))
  const note = (startTime: number | undefined): void =>
    writeFileSync(join(stateDir, 'runner', 'runner.json'), JSON.stringify({ ...runner, startTime }))
  note(1)
  await where.stopLocal()
  assert.notEqual(readProcess(pid), undefined)
  note(readProcess(pid)?.startTime)
  await where.stopLocal()
  assert.deepEqual(await ended, [null, 'SIGTERM'])
})
