import assert from 'node:assert/strict'
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { DAEMON_HEADER } from '@breakfall/wire'
import { createHttpServer } from '@breakfall/wire/node'
import { findDaemon } from '../src/daemon/find.ts'
import { version } from '../src/process/self.ts'

const stateDir = mkdtempSync(join(tmpdir(), 'breakfall-find-'))
after(() => rmSync(stateDir, { recursive: true, force: true }))

/** A server that refuses every request, and a `daemon.json` that names it. */
async function refusing(headers: Readonly<Record<string, string>>): Promise<AsyncDisposable> {
  const server = createHttpServer({
    handle: async (_, res) => {
      res.writeHead(403, { ...headers }).end('{}')
    },
  })
  const { localUrl: url } = await server.listen(0)
  writeFileSync(
    join(stateDir, 'daemon.json'),
    JSON.stringify({ url, pid: process.pid, tokenFile: join(stateDir, 't') }),
  )
  return { [Symbol.asyncDispose]: () => server.close({ graceMs: 0 }) }
}

test('a daemon that refuses the request is running: the fault says so', async () => {
  await using _ = await refusing({ [DAEMON_HEADER]: 'a' })
  await assert.rejects(
    findDaemon({ daemon: { kind: 'local' }, stateDir }),
    (error) => isFault(error) && error.category === 'forbidden' && /is running, but refuses/.test(error.error),
  )
})

test('another program at the address of a stale daemon.json is no daemon', async () => {
  await using _ = await refusing({})
  assert.equal(await findDaemon({ daemon: { kind: 'local' }, stateDir }), undefined)
})

const skip = process.getuid?.() !== 0 && 'this needs root'

test('a program of another user at the address of a stale daemon.json gets no token', { skip }, async (t) => {
  let asked = 0
  const server = createHttpServer({
    handle: async (_, res) => {
      asked++
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ version }))
    },
  })
  process.seteuid?.(65_534)
  const { localUrl: url } = await server.listen(0).finally(() => process.seteuid?.(0))
  t.after(() => server.close({ graceMs: 0 }))
  const tokenFile = join(stateDir, 't')
  writeFileSync(tokenFile, 'a-token\n', { mode: 0o600 })
  writeFileSync(join(stateDir, 'daemon.json'), JSON.stringify({ url, pid: process.pid, tokenFile }))
  assert.equal(await findDaemon({ daemon: { kind: 'local' }, stateDir }), undefined)
  assert.equal(asked, 1, 'whether it is a daemon is asked without the token')
})

test("another user's daemon.json cannot name a file of ours as its token", { skip }, async (t) => {
  const server = createHttpServer({
    handle: async (_, res) => {
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ version }))
    },
  })
  const { localUrl: url } = await server.listen(0)
  t.after(() => server.close({ graceMs: 0 }))
  const [tokenFile, file] = [join(stateDir, 'mine'), join(stateDir, 'daemon.json')]
  writeFileSync(tokenFile, 'mine\n', { mode: 0o600 })
  writeFileSync(file, JSON.stringify({ url, pid: process.pid, tokenFile }))
  assert.equal((await findDaemon({ daemon: { kind: 'local' }, stateDir }))?.address.token, 'mine')
  chownSync(file, 65_534, 65_534)
  await assert.rejects(
    findDaemon({ daemon: { kind: 'local' }, stateDir }),
    (error) => isFault(error) && error.category === 'forbidden' && error.error.includes(tokenFile),
  )
})
