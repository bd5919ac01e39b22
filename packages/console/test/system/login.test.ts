/** Who gets in, what leaves, and what is never shown, and that only a demo has chaos routes. */
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import { removeFolder } from '../../../../test/kit/folder.ts'
import { LIMIT } from '../../../../test/kit/wait.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { buildConsole } from '../../build.mjs'
import { launchWithProfile, noChromium } from '../kit/chromium.ts'
import { RealDaemon } from '../kit/real-daemon.ts'
import { browserTest, copied, isLive, unfold } from '../kit/suite.ts'

/** The daemon's key for the model. */
const KEY = 'sk-proj-of-the-daemon-0123456789abcdef'

let real: RealDaemon
before(async () => {
  if (noChromium !== false) return
  real = await RealDaemon.start({
    env: { OPENAI_API_KEY: KEY },
    plan: 'at=1.1:status:503',
    flags: ['--backoff-ms', '20'],
    script: (...request) =>
      inOrder(
        {
          text: `The key is ${KEY}, the token is ${real.token}.`,
          calls: [{ tool: 'bash', arguments: { command: `echo printed '${KEY}' '${real.token}'` } }],
        },
        { text: `Once more: ${KEY} ${real.token}` },
      )(...request),
  })
})
after(() => real?.[Symbol.asyncDispose]())

const ticketFor = async (to: string): Promise<{ readonly ticket: string; readonly address: string }> => {
  const ticket = String((await real.call('POST', '/v1/console/tickets', {}))['ticket'])
  return { ticket, address: `${real.url}/#ticket=${ticket}&to=${encodeURIComponent(to)}` }
}

browserTest('a ticket opens the page once; neither the address nor the history has it', async ({ open }) => {
  const { ticket, address } = await ticketFor('/system')
  const page = await open(address)
  await isLive(page)
  assert.equal(page.url(), `${real.url}/#/system`)
  await page.getByRole('link', { name: 'Fleet' }).first().click()
  await page.waitForSelector('#first-prompt')
  const cdp = await page.inContext.newCDPSession(page)
  const { entries } = await cdp.send('Page.getNavigationHistory')
  assert.deepEqual(
    entries.map(({ url }) => url),
    ['about:blank', `${real.url}/#/system`, `${real.url}/#/`],
  )
  const again = await fetch(`${real.url}/v1/console/tokens`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ticket }),
  })
  assert.equal(again.status, 401)
})

browserTest('what the browser itself keeps on disk, in its history and elsewhere, opens nothing', async ({ open }) => {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-profile-'))
  try {
    const { ticket, address } = await ticketFor('/system')
    const profile = await launchWithProfile(folder)
    const [page = await profile.newPage()] = profile.pages()
    await page.goto(address)
    await isLive(page)
    const token = await page.evaluate(() => sessionStorage.getItem('breakfall.token'))
    assert.ok(token !== null && token !== '')
    await profile.close()
    // Of the token, only this tab's storage knows. A browser notes the address before any page runs, but its ticket is spent.
    const files = globSync('**/*', { cwd: folder, withFileTypes: true }).filter((entry) => entry.isFile())
    assert.ok(files.length > 20)
    const having = (text: string): readonly string[] =>
      files
        .map(({ parentPath, name }) => join(parentPath, name))
        .filter(
          (file) => readFileSync(file).includes(text) || readFileSync(file).includes(Buffer.from(text, 'utf16le')),
        )
        .filter((file) => !file.includes('/Session Storage/'))
    assert.deepEqual(having(token), [])
    assert.deepEqual(having(real.token), [])
    using history = new DatabaseSync(join(folder, 'Default', 'History'), { readOnly: true })
    const visited = history
      .prepare('SELECT url FROM urls')
      .all()
      .map(({ url }) => String(url))
    assert.ok(visited.includes(`${real.url}/#/system`), visited.join())
    for (const url of visited.filter((one) => one.includes(ticket))) {
      const again = await open(url)
      await again.getByText(/This link was used before/).waitFor()
    }
  } finally {
    removeFolder(folder)
  }
})

test('the page and each of its files have the same strict headers', { ...LIMIT, skip: noChromium }, async () => {
  const files = globSync('assets/*', { cwd: await buildConsole() })
  assert.ok(files.length >= 3, files.join())
  for (const path of ['', ...files]) {
    const { status, headers } = await fetch(`${real.url}/${path}`)
    assert.equal(status, 200, path)
    for (const [name, value] of Object.entries(HEADERS)) assert.equal(headers.get(name), value, path)
    const isPage = path === ''
    assert.match(headers.get('cache-control') ?? '', isPage ? /no-cache/ : /immutable/, path)
    if (isPage) assert.match(headers.get('etag') ?? '', /^"/)
  }
})

/** As the specification has them, byte for byte. */
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

test('a daemon that is no demo has no chaos route', { ...LIMIT, skip: noChromium }, async () => {
  for (const [method, path, body] of [
    ['GET', '/v1/chaos', undefined],
    ['POST', '/v1/chaos/next', { fault: 'reset:4' }],
    ['PUT', '/v1/chaos/plan', { plan: 'none' }],
    ['POST', '/v1/chaos/kill', { what: 'daemon' }],
  ] as const)
    assert.equal((await real.call(method, path, body))['status'], 404, path)
})

browserTest(
  'what the daemon keeps secret is in no element, storage, export or copied command, though model and tool say it',
  async ({ open }) => {
    const { id } = await real.turn('tell me')
    const { address } = await ticketFor(`/s/${id}?step=1&attempt=1`)
    const page = await open(address, { permissions: ['clipboard-read', 'clipboard-write'], acceptDownloads: true })
    await page.waitForSelector('.state-bar[data-state="finished"]')
    await unfold(page)
    await page.getByText('[redacted]').first().waitFor()
    const places: Record<string, string> = { turn: await everything(page) }
    for (const label of ['copy curl', 'copy JSON', 'copy for an agent']) {
      places[label] = await copied(page, label)
      await page.getByText('✓ copied').waitFor({ state: 'detached' })
    }
    assert.match(places['copy curl'] ?? '', /^curl /)
    for (const kind of ['Everything', 'Without texts']) {
      const saving = page.waitForEvent('download')
      await page.getByRole('button', { name: 'export' }).click()
      await page.getByRole('button', { name: kind }).click()
      places[kind] = readFileSync(await (await saving).path(), 'utf8')
    }
    assert.match(places['Everything'] ?? '', /printed/)
    for (const hash of ['/', '/faults', '/system']) {
      await page.evaluate((to) => {
        location.hash = to
      }, `#${hash}`)
      await page.waitForSelector(hash === '/' ? `[data-session="${id}"]` : 'h1')
      await page.waitForFunction(() => document.querySelector('[aria-busy="true"]') === null)
      places[hash] = await everything(page)
    }
    for (const [place, text] of Object.entries(places))
      for (const secret of [KEY, real.token]) assert.ok(!text.includes(secret), place)
    const own = await page.evaluate(() => sessionStorage.getItem('breakfall.token') ?? '') // the only place that has it
    assert.notEqual(own, '')
    for (const [place, text] of Object.entries({ ...places, page: await page.content() }))
      assert.equal(text.split(own).length - 1, place.startsWith('/') || place === 'turn' ? 1 : 0, place)
  },
)

/** Everything a page holds and stores. */
const everything = (page: Page): Promise<string> =>
  page.evaluate(async () =>
    [
      document.documentElement.outerHTML,
      ...[...document.querySelectorAll('input, textarea')].map((field) => String(Reflect.get(field, 'value'))),
      JSON.stringify(localStorage),
      JSON.stringify(sessionStorage),
      JSON.stringify(await indexedDB.databases()),
      JSON.stringify(await caches.keys()),
      document.cookie,
      location.href,
      document.title,
    ].join('\n'),
  )

/** A program with nothing but a loopback interface. */
const ALONE = ['-rn', 'sh', '-c', 'ip link set lo up && exec "$0" "$@"'] as const
const cannotBeAlone =
  noChromium || (spawnSync('unshare', [...ALONE, 'true']).status === 0 ? false : 'unshare -rn is not allowed here')

test(
  'without any network but loopback, a turn runs and every screen works',
  { ...LIMIT, skip: cannotBeAlone },
  async () => {
    const program = fileURLToPath(new URL('../programs/offline.ts', import.meta.url))
    const { stdout } = await promisify(execFile)('unshare', [...ALONE, process.execPath, program])
    const found = JSON.parse(stdout) as { interfaces: string[]; headings: string[]; wrong: string[] }
    assert.deepEqual(found.interfaces, ['lo'])
    assert.equal(new Set(found.headings).size, 5, found.headings.join())
    assert.deepEqual(found.wrong, [])
  },
)
