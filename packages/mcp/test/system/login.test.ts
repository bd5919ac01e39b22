/** Logins by OAuth against a real authorization server: stored privately, refreshed, and never started by anything but a person. */
import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import { closedPort, startTcpServer } from '../../../../test/kit/tcp-server.ts'
import { McpHost, type McpServer, logIn, revokeLogin } from '../../src/index.ts'
import { readLogin, removeLogin, writeLogin } from '../../src/login/stored-login.ts'
import { type OauthMcp, startOauthMcp } from '../oauth-server.ts'
import type { TestContext } from 'node:test'

const LIMIT = { timeout: 60_000 }
let oauth: OauthMcp
before(async () => {
  oauth = await startOauthMcp()
})
after(() => oauth.close())

/** As a person with a browser. */
async function loggedIn(stateDir: string): Promise<string> {
  const login = await logIn({
    name: 's',
    url: oauth.url,
    signal: AbortSignal.timeout(30_000),
    onPage: (page) => void fetch(page).then((response) => response.body?.cancel()),
  })
  return writeLogin(stateDir, 's', login)
}

async function start(t: TestContext, stateDir: string, secrets: string[] = []): Promise<McpServer> {
  const host = new McpHost({ stateDir, onSecrets: (found) => secrets.push(...found) })
  atEnd(t, () => host.stop())
  host.configure({ s: { url: oauth.url } })
  await host.settled(30_000)
  const [server] = host.servers
  assert.ok(server !== undefined)
  return server
}

const call = (server: McpServer) =>
  server.call({ tool: 'mcp__s__act', arguments: {}, key: 'k' }, { signal: AbortSignal.timeout(30_000) })

test(
  'without a login the server fails with mcp_auth_failed and names the command; nothing registers or asks for a token',
  LIMIT,
  async (t) => {
    const server = await start(t, tempFolder(t))
    assert.equal(server.state, 'failed')
    assert.match(server.missing ?? '', /rejected the credentials.*breakfall mcp login s/)
    assert.deepEqual(oauth.seen, [])
  },
)

test(
  'a login is stored for its owner only, works, and its expired token is refreshed once for many calls',
  LIMIT,
  async (t) => {
    const stateDir = tempFolder(t)
    const file = await loggedIn(stateDir)
    assert.equal((statSync(file).mode & 0o777).toString(8), '600')
    assert.equal((statSync(join(stateDir, 'mcp-logins')).mode & 0o777).toString(8), '700')
    const secrets: string[] = []
    const server = await start(t, stateDir, secrets)
    assert.equal((await call(server)).kind, 'answered')
    oauth.expire()
    oauth.seen.length = 0
    const ends = await Promise.all([call(server), call(server), call(server)])
    assert.deepEqual(
      ends.map(({ kind }) => kind),
      ['answered', 'answered', 'answered'],
    )
    assert.deepEqual(oauth.seen, ['token refresh_token'])
    const stored = readLogin(stateDir, 's', oauth.url)?.tokens
    assert.ok(oauth.secrets.includes(stored?.refresh_token ?? ''))
    for (const token of oauth.secrets.slice(-4))
      assert.ok(secrets.includes(token), 'every token in use is known as a secret')
    assert.equal(readLogin(stateDir, 's', 'http://127.0.0.1:1/mcp'), undefined, 'a login belongs to one URL')
  },
)

test(
  'an authorization server that is away says nothing about the login: the call waits for it, and runs once',
  LIMIT,
  async (t) => {
    const stateDir = tempFolder(t)
    await loggedIn(stateDir)
    const server = await start(t, stateDir)
    oauth.expire()
    oauth.isDown = true
    oauth.mcp.effects = 0
    const ended = call(server)
    while (server.state === 'ready') await new Promise((resolve) => setTimeout(resolve, 5))
    oauth.isDown = false
    assert.deepEqual([(await ended).kind, oauth.mcp.effects], ['answered', 1])
  },
)

test('a login that is over is refused as mcp_auth_failed, before anything runs', LIMIT, async (t) => {
  const stateDir = tempFolder(t)
  await loggedIn(stateDir)
  const server = await start(t, stateDir)
  oauth.expire()
  oauth.revoke()
  oauth.mcp.seen.length = 0
  const end = await call(server)
  assert.deepEqual([end.kind, end.kind === 'refused' && end.fault.category], ['refused', 'mcp_auth_failed'])
  assert.deepEqual(oauth.mcp.seen, [])
  assert.equal(removeLogin(stateDir, 's'), true)
  assert.equal(removeLogin(stateDir, 's'), false)
})

test('an answer with another state is not taken, and a refused login stores nothing', LIMIT, async () => {
  let shown: URL | undefined
  const login = logIn({
    name: 's',
    url: oauth.url,
    signal: AbortSignal.timeout(30_000),
    onPage: (page) => {
      shown = page
      const back = new URL(page.searchParams.get('redirect_uri') ?? '')
      const refusal = `error=access_denied&error_description=not+you`
      void (async () => {
        const forged = await fetch(`${back.href}?code=stolen&state=guessed`)
        assert.equal(forged.status, 404)
        await fetch(`${back.href}?${refusal}&state=${page.searchParams.get('state') ?? ''}`)
      })()
    },
  })
  await assert.rejects(login, /was refused: not you\. Nothing was stored/)
  assert.match(shown?.href ?? '', /code_challenge_method=S256/)
})

test('without a browser here, the address that it ended at can be brought by hand', LIMIT, async () => {
  const pasted = Promise.withResolvers<string>()
  const login = await logIn({
    name: 's',
    url: oauth.url,
    signal: AbortSignal.timeout(30_000),
    pasted: pasted.promise,
    onPage: (page) =>
      void fetch(page, { redirect: 'manual' }).then((response) =>
        pasted.resolve(response.headers.get('location') ?? ''),
      ),
  })
  assert.match(login.tokens.access_token, /^access-/)
})

test(
  'a logout revokes both tokens; a server that refuses, is away, never answers or offers no way has its own sentence',
  LIMIT,
  async (t) => {
    const stateDir = tempFolder(t)
    await loggedIn(stateDir)
    const login = readLogin(stateDir, 's', oauth.url)
    assert.ok(login !== undefined)
    const server = await start(t, stateDir)
    oauth.seen.length = 0
    oauth.isDown = true
    const refused = await revokeLogin(login)
    oauth.isDown = false
    assert.deepEqual(refused, { kind: 'failed', why: 'it answered 503 (temporarily_unavailable)' })
    assert.equal((await call(server)).kind, 'answered')
    assert.deepEqual(await revokeLogin(login), { kind: 'revoked' })
    assert.deepEqual(oauth.seen, ['revoke refresh_token', 'revoke access_token'])
    assert.equal((await call(server)).kind, 'refused', 'neither token works any more')
    const { metadata } = login
    assert.ok(metadata !== undefined)
    const at = (endpoint?: string) => ({ ...login, metadata: { ...metadata, revocation_endpoint: endpoint } })
    assert.deepEqual(await revokeLogin(at()), { kind: 'not_offered' })
    assert.deepEqual(await revokeLogin(at('file:///etc/passwd')), { kind: 'not_offered' })
    await using silent = await startTcpServer(() => undefined)
    const late = await revokeLogin(at(`http://127.0.0.1:${silent.port}/revoke`), 200)
    assert.deepEqual(late, { kind: 'failed', why: 'it did not answer in time' })
    const away = await revokeLogin(at(`http://127.0.0.1:${await closedPort()}/revoke`))
    assert.deepEqual(away, { kind: 'failed', why: 'it cannot be reached (ECONNREFUSED)' })
  },
)
