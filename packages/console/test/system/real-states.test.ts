/** One real daemon in many states. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, afterEach, before } from 'node:test'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import { WebSocket } from 'ws'
import { eventually } from '../../../../test/kit/wait.ts'
import { noChromium } from '../kit/chromium.ts'
import { RealDaemon } from '../kit/real-daemon.ts'
import { browserTest, copied, isLive, readTurn, textOf, unfold } from '../kit/suite.ts'

let real: RealDaemon
before(async () => {
  if (noChromium === false) real = await RealDaemon.start({ model: 'rehearsal/steps-3', flags: ['--backoff-ms', '20'] })
})
after(() => real?.[Symbol.asyncDispose]())
afterEach(async () => {
  real?.proxy.use('none')
  await real?.mendLine()
})

/** Each turn gets its own box: two turns in one folder would wait for each other. */
const start = (prompt: string, create: Readonly<Record<string, unknown>> = {}): ReturnType<RealDaemon['turn']> =>
  real.turn(prompt, { box: {}, ...create })

/** Case 38 in full is `BREAKFALL_FLOOD_MB=100`. */
const FLOOD_MB = Number(process.env['BREAKFALL_FLOOD_MB'] ?? 3)

const stateIs = (page: Page, state: string): Promise<unknown> =>
  page.waitForSelector(`.state-bar[data-state="${state}"]`, { timeout: 30_000 })

const show = (page: Page, hash: string): Promise<unknown> =>
  page.evaluate((to) => {
    location.hash = to
  }, `#${hash}`)

browserTest('another origin frames nothing, reads nothing and opens no socket', async ({ browser }) => {
  const stranger = createServer((_, res) =>
    res.setHeader('content-type', 'text/html').end(`<iframe src="${real.url}/"></iframe>`),
  )
  await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`
  const context = await browser.newContext()
  try {
    const page = await context.newPage()
    await page.goto(origin)
    assert.match((await page.frames()[1]?.locator('body').textContent()) ?? '', /refuses the Host or Origin/)
    const read = await page.evaluate(
      async ([url, token]) => {
        const headers = { authorization: `Bearer ${token}` }
        const answered = await fetch(`${url}/v1/sessions`, { headers }).then(
          () => 'read',
          () => 'blocked',
        )
        const socket = new globalThis.WebSocket(`${String(url).replace('http', 'ws')}/v1/ws`, [
          'breakfall.v1',
          `breakfall.token.${token}`,
        ])
        const opened = await new Promise((resolve) => {
          socket.addEventListener('open', () => resolve('open'))
          socket.addEventListener('error', () => resolve('blocked'))
        })
        return [answered, opened]
      },
      [real.url, real.token],
    )
    assert.deepEqual(read, ['blocked', 'blocked'])
  } finally {
    await context.close()
    stranger.closeAllConnections()
    stranger.close()
  }
  const status = (headers: Record<string, string>): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const authorization = `Bearer ${real.token}`
      request(`${real.url}/v1/sessions`, { headers: { authorization, ...headers } }, (res) => {
        res.resume()
        resolve(res.statusCode)
      })
        .on('error', reject)
        .end()
    })
  assert.equal(await status({ host: 'evil.example' }), 403)
  assert.equal(await status({ origin: 'http://evil.example' }), 403)
  const socket = new WebSocket(
    `${real.url.replace('http', 'ws')}/v1/ws`,
    ['breakfall.v1', `breakfall.token.${real.token}`],
    { origin: 'http://evil.example' },
  )
  const refusal = await new Promise<string>((resolve) => socket.once('error', ({ message }) => resolve(message)))
  assert.match(refusal, /403/)
})

browserTest(
  'parked by a key, it says what to change; resumed too early it is parked again; the copied curl resumes it, too',
  async ({ open }) => {
    real.proxy.use('rate=1,faults=status:401')
    const { id, turnId } = await start('with a bad key')
    const page = await open(real.open(`/s/${id}`), { permissions: ['clipboard-read', 'clipboard-write'] })
    await stateIs(page, 'needs')
    assert.match(await textOf(page, '.state-bar'), /key/i)
    const parks = async (): Promise<number> => (await real.events(id)).filter(({ type }) => type === 'parked').length
    assert.equal(await parks(), 1)
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.waitForFunction(() => document.querySelectorAll('[data-scar="park"]').length >= 2)
    await stateIs(page, 'needs')
    assert.equal(await parks(), 2)
    real.proxy.use('none')
    await page.waitForSelector('[data-action="resume"][aria-disabled="false"]')
    await page.locator('.state-bar').getByRole('button', { name: 'Why' }).click()
    await promisify(execFile)('sh', ['-c', await copied(page, 'copy curl')]) // does what the button would do
    await stateIs(page, 'finished')
    assert.equal((await real.call('GET', `/v1/turns/${turnId}`))['state'], 'finished')
    const resumed = (await real.events(id)).filter(({ type }) => type === 'resumed')
    assert.deepEqual(
      resumed.map(({ because }) => because),
      ['person', 'person'],
    )
  },
)

browserTest(
  'cancelled in a tool, in backoff or parked, the button is pending at once, and the turn ends by the user',
  async ({ open }) => {
    const page = await open(real.open())
    for (const [plan, model, state] of [
      ['none', 'rehearsal/slow', '.call[data-outcome="running"] pre.output'],
      ['rate=1,faults=status:429:retryAfter=60s', 'rehearsal/steps-3', '.state-bar[data-state="retrying"]'],
      ['rate=1,faults=status:401', 'rehearsal/steps-3', '.state-bar[data-state="needs"]'],
    ] as const) {
      real.proxy.use(plan)
      const { id, turnId } = await start('to be cancelled', { model })
      await show(page, `/s/${id}`)
      await page.waitForSelector(state)
      await page.locator('.state-bar').getByRole('button', { name: 'Cancel' }).click()
      await page.evaluate(() => {
        Reflect.set(globalThis, 'wasPending', false)
        new MutationObserver(() => {
          if (document.querySelector('.state-bar [aria-disabled="true"]') !== null)
            Reflect.set(globalThis, 'wasPending', true)
        }).observe(document.body, { subtree: true, attributes: true, childList: true })
      })
      await page.getByRole('button', { name: 'Yes, cancel it' }).click()
      await stateIs(page, 'cancelled')
      assert.equal(await page.evaluate(() => Reflect.get(globalThis, 'wasPending')), true)
      const turn = await real.call('GET', `/v1/turns/${turnId}`)
      assert.deepEqual([turn['state'], (turn['fault'] as { actor: string }).actor], ['cancelled', 'user'])
    }
  },
)

browserTest('with eight tabs open the ninth loads', async ({ open }) => {
  const first = await open(real.open())
  await isLive(first)
  for (let tab = 2; tab <= 9; tab += 1) {
    const next = await first.inContext.newPage()
    await next.goto(`${real.url}/#/`)
    await isLive(next)
  }
})

browserTest(
  'a turn parked because its model is down continues automatically once the model is up; a prompt queued meanwhile runs next',
  async ({ open }) => {
    const policy = { attemptsMax: 2, backoffMs: 1, patienceMs: 0 }
    const id = String((await real.call('POST', '/v1/sessions', { box: {}, policy }))['id'])
    const page = await open(real.open(`/s/${id}`))
    await page.waitForSelector('#composer')
    await real.cutLine()
    await real.call('POST', `/v1/sessions/${id}/turns`, { prompt: 'the first' })
    await stateIs(page, 'parked')
    await page.getByLabel('Queue another prompt').fill('the second')
    await page.getByRole('button', { name: 'Queue' }).click()
    await page.getByText('the second').first().waitFor()
    await real.mendLine()
    await eventually('both turns end', async () => {
      const ends = (await real.events(id)).filter(({ type }) => type === 'turn-end')
      return ends.length === 2
    })
    await stateIs(page, 'finished')
    const events = await real.events(id)
    assert.ok(events.some(({ type, because }) => type === 'resumed' && because === 'signal'))
    await page.locator('[data-scar="park"] .healed', { hasText: 'what it waited for came back (signal)' }).waitFor()
    assert.deepEqual(
      events.filter(({ type }) => type === 'turn-start').map(({ prompt }) => prompt),
      ['the first', 'the second'],
    )
  },
)

browserTest(
  'long output shows its ends and the number of lines between; downloaded it is whole; an export without texts has none',
  async ({ open }) => {
    const { id } = await start('zucchini', { model: `rehearsal/flood-${FLOOD_MB}` })
    const page = await open(real.open(`/s/${id}`), { acceptDownloads: true })
    await stateIs(page, 'finished')
    const call = (await real.events(id)).find(({ type }) => type === 'tool-call')
    await unfold(page)
    await page
      .getByText(/lines between/)
      .first()
      .waitFor()
    await page.getByRole('button', { name: 'Load the whole output' }).click()
    await page.getByRole('button', { name: /^Load more \(.* of / }).waitFor()
    const downloading = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Download' }).click()
    const saved = readFileSync(await (await downloading).path())
    const response = await outputOf(id, call?.['execId'])
    const whole = Buffer.from(await response.arrayBuffer())
    assert.ok(whole.length >= FLOOD_MB * 1_000_000, String(whole.length))
    assert.equal(sha(saved), sha(whole))
    const exporting = page.waitForEvent('download')
    await page.getByRole('button', { name: 'export' }).click()
    await page.getByRole('button', { name: 'Without texts' }).click()
    const bundle = readFileSync(await (await exporting).path(), 'utf8')
    for (const word of ['zucchini', 'I print', 'seq']) {
      const isField = word === 'seq'
      assert.equal(bundle.includes(word), isField, word)
    }
  },
)

const outputOf = (id: string, execId: unknown): Promise<Response> =>
  fetch(`${real.url}/v1/sessions/${id}/execs/${String(execId)}/output/stdout`, {
    headers: { authorization: `Bearer ${real.token}` },
  })

const sha = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

browserTest('a tab that was frozen comes back whole', async ({ open }) => {
  const { id } = await start('freeze', { model: 'rehearsal/steps-12' })
  const page = await open(real.open(`/s/${id}`))
  await page.waitForSelector('[data-step="1"]')
  const cdp = await page.inContext.newCDPSession(page)
  await cdp.send('Page.setWebLifecycleState', { state: 'frozen' })
  const fresh = await open(real.open(`/s/${id}`))
  await stateIs(fresh, 'finished')
  await cdp.send('Page.setWebLifecycleState', { state: 'active' })
  await stateIs(page, 'finished')
  assert.equal(await readTurn(page), await readTurn(fresh))
})

browserTest(
  'the runner is killed during a command: the thread says so, the turn continues, and System shows a runner again',
  async ({ open }) => {
    const { id } = await start('watch it', { model: 'rehearsal/slow' })
    const page = await open(real.open(`/s/${id}`))
    await page.waitForSelector('.call[data-outcome="running"] pre.output')
    real.killRunner()
    await page.waitForSelector('.call:not([data-outcome="running"])', { timeout: 30_000 })
    await stateIs(page, 'finished')
    const looks = (await real.events(id)).filter(({ type }) => type === 'retry')
    assert.ok(looks.length > 0 && looks.every(({ action }) => action === 'resolve'))
    await page.locator('.call .more', { hasText: `Looked for the runner ${looks.length} of` }).waitFor()
    await page.locator('.lane-notes', { hasText: 'looked for the runner' }).waitFor()
    const result = (await real.events(id)).find(({ type }) => type === 'tool-result')
    assert.ok(result !== undefined)
    assert.equal(await page.locator(`.call[data-outcome="${String(result['outcome'])}"]`).count(), 1)
    const lines = Array.from({ length: 8 }, (_, n) => `line ${n + 1} of 8\n`).join('') // none twice, none lost
    const call = (await real.events(id)).find(({ type }) => type === 'tool-call')
    const response = await outputOf(id, call?.['execId'])
    assert.equal(await response.text(), lines)
    await unfold(page)
    const shown = await page.locator('.call pre.output').allTextContents()
    assert.equal(shown.join('').trim(), lines.trim())
    await show(page, '/system')
    const card = page.locator('[data-part="Runner"]', { hasText: 'connected' })
    await card.waitFor({ timeout: 30_000 })
  },
)

browserTest(
  'approvals: a denied call says why and asks no more; an allowed one runs, and the turn continues',
  async ({ open }) => {
    const { id } = await start('ask me', { model: 'rehearsal/steps-1', policy: { approve: 'always' } })
    const page = await open(real.open('/'))
    await page
      .locator(`[data-session="${id}"]`)
      .getByRole('link', { name: /^Answer/ })
      .click()
    await page.locator('.state-bar').getByRole('button', { name: 'Deny' }).click()
    await page.waitForSelector('.state-bar input:focus')
    await page.keyboard.type('not in this folder')
    await page.keyboard.press('Enter')
    const [first, second] = [page.locator('#step-1 .call'), page.locator('#step-2 .call')]
    await first.getByText('A person denied this call. Reason: not in this folder').waitFor()
    assert.equal(await first.getByRole('button', { name: 'Allow' }).count(), 0)
    await second.getByRole('button', { name: 'Allow', exact: true }).click()
    await second.getByText('A person allowed this call.').waitFor()
    assert.equal(await second.getByRole('button', { name: 'Allow' }).count(), 0)
    const given = (await real.events(id)).filter(({ type }) => type === 'approval')
    assert.deepEqual(
      given.map(({ decision, reason }) => [decision, reason]),
      [
        ['deny', 'not in this folder'],
        ['allow', null],
      ],
    )
  },
)

browserTest('undo shows what it would change, puts the files back, and can be redone', async ({ open }) => {
  const { id, turnId } = await real.turn('write three lines', {
    box: { workspace: real.place.folder, checkpoints: 'auto' },
  })
  const page = await open(real.open(`/s/${id}`))
  await stateIs(page, 'finished')
  const files = (): readonly string[] => globSync('**/*', { cwd: real.place.folder })
  const written = files()
  await page.getByRole('button', { name: 'undo…' }).click()
  await page
    .getByRole('group', { name: 'What the undo would change' })
    .getByText(/Undo changes \d+ file/)
    .waitFor()
  assert.deepEqual(files(), written, 'a look changes nothing')
  await page.getByRole('button', { name: 'Put back' }).click()
  await page
    .getByText(/files? put back/)
    .first()
    .waitFor()
  assert.notDeepEqual(files(), written)
  await page.getByRole('button', { name: 'redo…' }).click()
  await page.getByRole('button', { name: 'Put back' }).click()
  await page.getByRole('group', { name: 'What the undo would change' }).waitFor({ state: 'detached' })
  assert.deepEqual(files(), written)
  assert.notEqual(turnId, '')
})
