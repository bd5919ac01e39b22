/** Tickets and tokens of the console, and its files with their headers. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { parseTokens } from '@breakfall/wire/node'
import { atEnd, tempFolder } from '../../../test/kit/folder.ts'
import { ConsoleAuth, type Tickets, ticketsInMemory, ticketsInStore } from '../src/api/console-auth.ts'
import { Api } from './support/api.ts'
import { rig } from './support/setup.ts'

const MINUTE = 60_000

function authAt(
  tokens: string,
  clock = { now: 1_000_000 },
  tickets: Tickets = ticketsInMemory(),
): { auth: ConsoleAuth; clock: { now: number } } {
  return {
    auth: new ConsoleAuth(
      () => parseTokens(tokens),
      () => clock.now,
      tickets,
    ),
    clock,
  }
}

const categoryOf = async (act: () => unknown): Promise<string> => {
  try {
    await act()
    return 'nothing was thrown'
  } catch (error) {
    return isFault(error) ? error.category : String(error)
  }
}

test('a ticket is valid once and for two minutes, and a wrong one is limited to ten a minute', async () => {
  const { auth, clock } = authAt('secret-token')
  const { ticket } = auth.ticket('secret-token')
  assert.equal(auth.grantOf((await auth.exchange(ticket)).token)?.isReadOnly, false)
  assert.equal(await categoryOf(() => auth.exchange(ticket)), 'unauthorized')
  const late = auth.ticket('secret-token')
  clock.now += 2 * MINUTE
  assert.equal(await categoryOf(() => auth.exchange(late.ticket)), 'unauthorized')
  const wrong: string[] = []
  for (let n = 0; n < 11; n += 1) wrong.push(await categoryOf(() => auth.exchange(`guess-${n}`)))
  assert.deepEqual([...new Set(wrong.slice(0, 9))], ['unauthorized'])
  assert.equal(wrong.at(-1), 'quota_exceeded')
  const right = auth.ticket('secret-token')
  assert.notEqual((await auth.exchange(right.ticket)).token, '', 'a valid ticket is accepted all the same')
  clock.now += MINUTE
  assert.equal(await categoryOf(() => auth.exchange('guess')), 'unauthorized')
})

test('a ticket is void after a restart; daemons that share a store accept it at any of them, once', async () => {
  const { auth, clock } = authAt('secret-token')
  const { ticket } = auth.ticket('secret-token')
  const restarted = authAt('secret-token', clock).auth
  assert.equal(await categoryOf(() => restarted.exchange(ticket)), 'unauthorized')

  const used = new Map<string, string>()
  const enroll = (code: string, by: string): Promise<boolean> => {
    if (!used.has(code)) used.set(code, by)
    return Promise.resolve(used.get(code) === by)
  }
  const at = (tokens: string): ConsoleAuth => authAt(tokens, clock, ticketsInStore({ enroll })).auth
  const [one, two] = [at('secret-token'), at('secret-token')]
  const shared = one.ticket('secret-token').ticket
  assert.equal(await categoryOf(() => at('changed-token').exchange(shared)), 'unauthorized', 'of another token file')
  assert.ok(one.grantOf((await two.exchange(shared)).token), 'made at one daemon, used at another')
  for (const again of [one, two, at('secret-token')])
    assert.equal(await categoryOf(() => again.exchange(shared)), 'unauthorized')
  assert.equal(one.grantOf(one.ticket('secret-token').ticket), undefined, 'a ticket is no token')
})

test('a token of the console outlives the daemon, ends after twelve hours and dies with a changed token file', async () => {
  const { auth, clock } = authAt('secret-token')
  const { token, expiresAt } = await auth.exchange(auth.ticket('secret-token').ticket)
  assert.equal(Date.parse(expiresAt) - clock.now, 12 * 60 * MINUTE)
  assert.match(token, /^[\w.-]+$/, 'it fits into a header and a subprotocol')
  const next = authAt('another-token\nsecret-token', clock)
  assert.ok(next.auth.grantOf(token))
  assert.equal(authAt('changed-token', clock).auth.grantOf(token), undefined)
  const [head = '', , nonce = '', mac = ''] = token.split('.')
  for (const forged of [
    [head, 'zzzzzzzz', nonce, mac],
    [head, token.split('.')[1], nonce, mac.replace(/^./, mac.startsWith('A') ? 'B' : 'A')],
  ])
    assert.equal(next.auth.grantOf(forged.join('.')), undefined)
  assert.equal(await categoryOf(() => auth.ticket(token)), 'forbidden', 'it cannot prolong itself')
  clock.now = Date.parse(expiresAt)
  assert.equal(next.auth.grantOf(token), undefined)
})

/** As in the research page, byte for byte. */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-dns-prefetch-control': 'off',
  'permissions-policy': 'clipboard-write=(self), camera=(), microphone=(), geolocation=()',
}

test('the console is served with its headers, a ticket opens it, and its token and port outlive the daemon', async (t) => {
  const folder = tempFolder(t)
  mkdirSync(join(folder, 'assets'))
  writeFileSync(join(folder, 'index.html'), '<!doctype html>page')
  writeFileSync(join(folder, 'assets', 'main-ABCD1234.js'), 'export {}')
  writeFileSync(join(folder, 'secret.txt'), 'not an asset')
  const first = await rig(t, () => ({ text: 'hi' }), { console: { folder } })
  const { url, token } = first.daemon
  for (const [path, type, cache] of [
    ['/', 'text/html; charset=utf-8', 'no-cache'],
    ['/assets/main-ABCD1234.js', 'text/javascript; charset=utf-8', 'public, max-age=31536000, immutable'],
  ] as const) {
    const response = await fetch(url + path)
    assert.equal(response.status, 200)
    for (const [name, value] of Object.entries({ ...HEADERS, 'content-type': type, 'cache-control': cache }))
      assert.equal(response.headers.get(name), value, `${path} ${name}`)
    const again = await fetch(url + path, { headers: { 'if-none-match': response.headers.get('etag') ?? '' } })
    assert.equal(again.status, 304)
  }
  for (const path of ['/assets/..%2fsecret.txt', '/assets/..%2f..%2fetc%2fpasswd', '/assets/none.js', '/assets/%00.js'])
    assert.equal((await fetch(url + path)).status, 404, path)
  const ticket = await first.api.call<{ ticket: string }>('POST', '/v1/console/tickets', {})
  assert.equal(ticket.status, 201)
  const stranger = new Api({ url, token: 'none' })
  assert.equal((await stranger.call('POST', '/v1/console/tickets', {})).status, 401)
  const unknownField = await stranger.call('POST', '/v1/console/tokens', ticket.json)
  assert.equal(unknownField.status, 400, 'a refused body uses up no ticket')
  const body = { ticket: ticket.json.ticket }
  const { status, json } = await stranger.call<{ token: string }>('POST', '/v1/console/tokens', body)
  assert.equal(status, 201)
  assert.equal((await stranger.call('POST', '/v1/console/tokens', body)).status, 401)
  const foreign = await stranger.call('POST', '/v1/console/tokens', body, { origin: 'http://evil.example' })
  assert.equal(foreign.status, 403)
  const page = new Api({ url, token: json.token })
  const { id } = await page.session()
  await page.prompt(id, 'hi')
  const second = await first.restart({ console: { reason: 'esbuild said <no> & left' } })
  assert.equal(second.daemon.url, url, 'the same port')
  assert.equal((await page.call('GET', `/v1/sessions/${id}`)).status, 200, 'the same token')
  assert.equal((await new Api({ url, token }).call('GET', '/v1/sessions')).status, 200)
  const plain = await fetch(`${url}/`)
  assert.equal(plain.status, 503)
  assert.equal(plain.headers.get('content-security-policy'), HEADERS['content-security-policy'])
  const shown = await plain.text()
  assert.ok(shown.includes('esbuild said &#60;no&#62; &#38; left') && !shown.includes('<no>'), shown)
})

test('a port that another program has taken is no reason not to start', async (t) => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  atEnd(t, () => other.close())
  const address = other.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const stateDir = tempFolder(t)
  writeFileSync(join(stateDir, 'daemon.port'), `${port}\n`)
  const { daemon } = await rig(t, () => ({ text: 'hi' }), { stateDir })
  assert.notEqual(new URL(daemon.url).port, String(port))
})
