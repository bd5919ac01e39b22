/** The page with a real daemon that fails, is killed and comes back. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { startTcpProxy } from '@breakfall/chaos'
import type { Browser, Page } from 'playwright-core'
import { eventually, LIMIT } from '../../../../test/kit/wait.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { launch, noChromium, openPage } from '../kit/chromium.ts'
import { RealDaemon } from '../kit/real-daemon.ts'
import { copied, readTurn, unfold } from '../kit/suite.ts'

const options = { ...LIMIT, skip: noChromium }
let browser: Browser
before(async () => {
  if (noChromium === false) browser = await launch()
})
after(() => browser?.close())

/** Where two long texts part. */
function differs(a: string, b: string): string {
  const at = a.split('').findIndex((char, index) => char !== b[index])
  const from = Math.max(0, (at === -1 ? b.length : at) - 80)
  return `${a.slice(from, from + 200)}\n${b.slice(from, from + 200)}`
}

/** Each round kills the daemon four times: in text, tool, backoff and park. Case 42 in full (20 kills) is `BREAKFALL_KILL_ROUNDS=5`. */
const ROUNDS = Number(process.env['BREAKFALL_KILL_ROUNDS'] ?? 1)

/** An answer begins, then stands still for as long as the test needs. */
const STALL = 'rate=1,faults=stall:300000'

/** A longer wait would be a park. */
const THROTTLE = 'rate=1,faults=status:429:retryAfter=60s'

const stateIs = (page: Page, state: string): Promise<unknown> =>
  page.waitForSelector(`.state-bar[data-state="${state}"]`, { timeout: 60_000 })

// Each test has its own daemon, and most of their time is waiting.
describe('side by side', { concurrency: 3 }, () => {
  test(
    'an answer that was continued after a break has a stitch, and nothing of it is struck out',
    options,
    async () => {
      await using real = await RealDaemon.start({
        plan: 'at=3.1:reset:4',
        model: 'rehearsal/steps-2',
        flags: ['--profile', 'llama-cpp', '--backoff-ms', '50'],
      })
      const { id, turnId } = await real.turn()
      const { page, context, violations } = await openPage(browser, real.open(`/s/${id}`))
      await stateIs(page, 'finished')
      const retries = (await real.events(id)).filter(({ type }) => type === 'retry')
      assert.deepEqual(
        retries.map(({ action }) => action),
        ['resume'],
      )
      await page.getByText('continued here where the stream broke').waitFor()
      assert.equal(await page.locator('.talk del').count(), 0)
      const { text } = (await real.call('GET', `/v1/turns/${turnId}`))['result'] as { text: string }
      const shown = await page.locator('#step-3 .md').allInnerTexts()
      assert.ok(shown.length >= 2, 'before the break and after it')
      assert.equal(shown.join('').replaceAll(/\s/g, ''), text.replaceAll(/\s/g, ''))
      assert.deepEqual(violations, [])
      await context.close()
    },
  )

  test(
    'a page whose script stands still is cut off by the daemon, and continues after the last event it has',
    options,
    async () => {
      await using real = await RealDaemon.start({ model: 'rehearsal/echo' })
      const id = String((await real.call('POST', '/v1/sessions', {}))['id'])
      const { page, context, violations } = await openPage(browser, real.open(`/s/${id}`), {
        onOpen: async (opened) => {
          await opened.addInitScript(() => {
            const asked: string[] = []
            Reflect.set(globalThis, 'asked', asked)
            const Socket = globalThis.WebSocket
            globalThis.WebSocket = class extends Socket {
              override send(data: string): void {
                if (data.includes('"subscribe"')) asked.push(data)
                super.send(data)
              }
            }
          })
        },
      })
      await page.waitForSelector('#composer')
      const cdp = await context.newCDPSession(page)
      await cdp.send('Debugger.enable')
      const isPaused = new Promise((resolve) => cdp.once('Debugger.paused', resolve))
      await cdp.send('Debugger.pause')
      await isPaused
      const prompt = Array.from({ length: 30_000 }, (_, n) => `word-${n}`).join(' ')
      for (let n = 0; n < 8; n += 1) await real.call('POST', `/v1/sessions/${id}/turns`, { prompt, queue: true })
      await eventually('the daemon has closed the connection', async () => {
        const response = await fetch(`${real.url}/metrics`, { headers: { authorization: `Bearer ${real.token}` } })
        return /^breakfall_websockets_open 0$/m.test(await response.text())
      })
      await cdp.send('Debugger.resume')
      await cdp.send('Debugger.disable')
      await page.waitForFunction(() => document.querySelectorAll('.ending').length === 8, undefined, {
        timeout: 60_000,
      })
      const asked = await page.evaluate(() => Reflect.get(globalThis, 'asked') as string[])
      const cursors = asked.map((frame) => (JSON.parse(frame) as { params: { after: unknown } }).params.after)
      assert.equal(cursors[0], 0)
      assert.match(String(cursors.at(-1)), /^[0-9a-f-]{36}-[1-9]\d*$/, 'it continued by its cursor')
      assert.equal(await page.getByText('another journal').count(), 0, 'it was not started over')
      assert.deepEqual(violations, [])
      await context.close()
    },
  )

  test('if the page cannot be built, the daemon serves its API, and its address says why', options, async () => {
    const hook = `import { registerHooks } from 'node:module'
registerHooks({ resolve(name, context, next) {
  if (name === '@breakfall/console/build') throw new Error('the bundler is <missing>')
  return next(name, context)
} })`
    await using real = await RealDaemon.start({
      env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` },
    })
    const { page, context, violations } = await openPage(browser, `${real.url}/`)
    assert.match(await page.locator('body').innerText(), /The console could not be built: the bundler is <missing>/)
    assert.equal((await real.call('POST', '/v1/sessions', {}))['status'], 201)
    assert.deepEqual(violations, [])
    await context.close()
  })

  test(
    'a cut stream shows its category, its raw error and the text thrown away; the copied answer is the turn’s',
    options,
    async () => {
      await using real = await RealDaemon.start({
        plan: 'at=2.1:reset:4',
        model: 'rehearsal/fix',
        flags: ['--backoff-ms', '50'],
      })
      const { id, turnId } = await real.turn()
      const { page, context, violations, foreign } = await openPage(browser, real.open(`/s/${id}`), {
        permissions: ['clipboard-read', 'clipboard-write'],
      })
      await stateIs(page, 'finished')
      const scar = page.locator('.scar[data-category="model_stream_interrupted"]')
      await unfold(page)
      await scar.waitFor()
      const text = await scar.innerText()
      assert.match(text, /attempt 1/)
      assert.match(text, /model_stream_interrupted/)
      assert.equal((await scar.locator('del').count()) > 0, true, 'what was thrown away is struck out')
      const answer = await copied(page, 'copy answer')
      const turn = await real.call('GET', `/v1/turns/${turnId}`)
      assert.equal(answer, (turn['result'] as { text: string }).text)
      assert.deepEqual([violations, foreign], [[], []])
      await context.close()
    },
  )

  test(
    'killed with kill -9 in text, tool, backoff and park, the page says so, comes back at the same address without a reload, and shows what a fresh page shows',
    options,
    async () => {
      const script = inOrder(
        ...Array.from({ length: ROUNDS }, (_, n) => ({
          text: `Part ${n} of the work has begun.`,
          calls: [
            { tool: 'bash', arguments: { command: `until [ -e go-${n} ]; do sleep 0.05; done; echo went ${n}` } },
          ],
        })),
        { text: 'All parts are done.' },
      )
      await using real = await RealDaemon.start({ script, plan: STALL, flags: ['--backoff-ms', '50'] })
      const { id } = await real.turn()
      const { page, context, violations } = await openPage(browser, real.open(`/s/${id}`))
      await page.waitForSelector('[data-step="1"]')
      await page.evaluate(() => void Reflect.set(globalThis, 'isSamePage', true))
      const { url } = real
      let takeovers = 0
      const killIn = async (state: string, plan: string): Promise<void> => {
        await stateIs(page, state)
        await real.kill9()
        await page.waitForSelector('[data-link="lost"]')
        await page.locator('.state-bar [data-action][aria-disabled="true"]', { hasText: 'Cancel' }).waitFor()
        real.proxy.use(plan)
        await real.up()
        assert.equal(real.url, url, 'the same address after a restart')
        await page.waitForSelector('[data-link="open"]', { timeout: 60_000 })
        // No daemon has to take over a parked turn: it stays parked.
        if (state !== 'needs') takeovers += 1
        await page.waitForFunction((n) => document.querySelectorAll('[data-scar="takeover"]').length >= n, takeovers, {
          timeout: 60_000,
        })
        await page.waitForSelector('.state-bar [data-action][aria-disabled="false"]')
      }
      for (let round = 0; round < ROUNDS; round += 1) {
        await page.locator(`#step-${round + 1}`, { hasText: `Part ${round}` }).waitFor()
        await killIn('running', 'none') // in text: the answer stands still there
        await page.waitForSelector(`#step-${round + 1} .call[data-outcome="running"]`)
        await killIn('running', THROTTLE) // in a tool: it runs on without a daemon
        writeFileSync(join(real.place.folder, `go-${round}`), '')
        await killIn('retrying', THROTTLE) // in backoff
        real.proxy.use('rate=1,faults=status:401')
        await page.getByRole('button', { name: 'Retry now' }).click()
        await page.getByText(/The provider asked for/).waitFor()
        await page.getByRole('button', { name: 'Retry now' }).click()
        await killIn('needs', round + 1 < ROUNDS ? STALL : 'none') // parked
        await page.locator('[data-action="resume"][aria-disabled="false"]').click()
      }
      await stateIs(page, 'finished')
      assert.equal(await page.evaluate(() => Reflect.get(globalThis, 'isSamePage')), true, 'it was never reloaded')
      const fresh = await openPage(browser, real.open(`/s/${id}`))
      await stateIs(fresh.page, 'finished')
      const [live, replayed] = [await readTurn(page), await readTurn(fresh.page)]
      assert.ok(live === replayed, `not the same fold as a fresh replay:\n${differs(live, replayed)}`)
      assert.match(live, /No daemon ran it for/)
      assert.equal(await page.locator('[data-scar="takeover"]').count(), 3 * ROUNDS)
      for (let round = 0; round < ROUNDS; round += 1) assert.equal(live.split(`went ${round}\n`).length, 2, live)
      assert.deepEqual([...violations, ...fresh.violations], [])
      await fresh.context.close()
      await context.close()
    },
  )

  test(
    'stopped, it is not answering; killed, a reload works once it is back; a restored or an empty journal is said',
    options,
    async () => {
      await using real = await RealDaemon.start({ model: 'rehearsal/steps-3' })
      const { id } = await real.turn()
      const { page, context } = await openPage(browser, real.open(`/s/${id}`), { clockAt: Date.now() })
      await stateIs(page, 'finished')
      real.signal('SIGSTOP')
      try {
        await page.clock.runFor(14_000) // two beats are missed by then
        await page.waitForSelector('[data-link="silent"]')
        assert.match(await page.locator('[data-connection]').innerText(), /not answering/)
      } finally {
        real.signal('SIGCONT')
      }
      await page.waitForSelector('[data-link="open"]', { timeout: 60_000 })
      await real.kill9()
      await page.reload().catch(() => undefined) // the browser's own error page
      await real.up()
      await page.goto(`${real.url}/#/s/${id}`)
      await stateIs(page, 'finished') // with the kept token

      // the journal of an older backup does not have the second turn
      await real.stop()
      const putBack = real.backUp()
      await real.up()
      await page.waitForSelector('[data-link="open"]', { timeout: 60_000 })
      await real.call('POST', `/v1/sessions/${id}/turns`, { prompt: 'after the backup' })
      await page.getByText('after the backup').first().waitFor({ timeout: 60_000 })
      await stateIs(page, 'finished')
      await real.stop()
      putBack()
      await real.up()
      await page
        .getByText(/another journal/)
        .first()
        .waitFor({ timeout: 60_000 })
      await stateIs(page, 'finished')
      assert.equal(await page.getByText('after the backup').count(), 0, 'it is shown from the start')
      await real.stop()
      real.forgetSessions()
      await real.up()
      await page.getByText(/There is no such session|This session was deleted/).waitFor({ timeout: 60_000 })
      await page.getByRole('link', { name: 'Fleet' }).first().click()
      await page.waitForSelector('#first-prompt')
      await context.close()
    },
  )

  test(
    'behind a network that breaks, what is typed stays, and a prompt that is sent again runs once',
    options,
    async () => {
      await using real = await RealDaemon.start({ model: 'rehearsal/steps-2' })
      const { id } = await real.turn()
      const proxy = await startTcpProxy({
        upstream: { port: Number(new URL(real.url).port) },
        toxics: [{ type: 'latency', attributes: { latency: 40, jitter: 30 } }],
      })
      const { page, context } = await openPage(
        browser,
        `http://127.0.0.1:${proxy.port}/#token=${real.token}&to=${encodeURIComponent(`/s/${id}`)}`,
      )
      await stateIs(page, 'finished')
      await page.locator('#composer').fill('a second one')
      await proxy.down()
      await page.waitForSelector('[data-connection="lost"]')
      await page.locator('button[aria-disabled="true"]', { hasText: 'Send' }).waitFor()
      proxy.setToxics([
        { type: 'latency', attributes: { latency: 400, jitter: 300 } },
        { type: 'bandwidth', attributes: { rate: 20 } },
      ])
      await proxy.up()
      await page.waitForSelector('[data-link="open"]', { timeout: 60_000 })
      assert.equal(await page.locator('#composer').inputValue(), 'a second one')
      await page.locator('#composer').press('Enter')
      await page.getByText('a second one').first().waitFor()
      await stateIs(page, 'finished')
      const prompts = (await real.events(id)).filter(({ type }) => type === 'turn-start')
      assert.equal(prompts.length, 2)
      await context.close()
      await proxy.close()
    },
  )
})
