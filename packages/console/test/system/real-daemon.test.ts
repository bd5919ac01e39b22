/** The page with a real daemon that fails, is killed and comes back: cases 1, 2, 3, 4, 19, 20, 23, 27, 35, 41, 42, 45, 50. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { LIMIT } from '../../../../test/kit/wait.ts'
import { launch, noChromium, openPage } from '../kit/chromium.ts'
import { RealDaemon } from '../kit/real-daemon.ts'

const options = { ...LIMIT, skip: noChromium }
let browser: Browser
before(async () => {
  if (noChromium === false) browser = await launch()
})
after(() => browser?.close())

/** What a person reads of the whole turn, without what changes by the second. */
async function readTurn(page: Page): Promise<string> {
  await page.keyboard.press('e')
  return page.evaluate(() => {
    const talk = document.querySelector('.talk')
    return (talk?.textContent ?? '').replaceAll(/just now|\d+ s ago|\d+ min ago/g, '')
  })
}

/** Where two long texts part. */
function differs(a: string, b: string): string {
  const at = a.split('').findIndex((char, index) => char !== b[index])
  const from = Math.max(0, (at === -1 ? b.length : at) - 80)
  return `${a.slice(from, from + 200)}\n${b.slice(from, from + 200)}`
}

const stateIs = (page: Page, state: string): Promise<unknown> =>
  page.waitForSelector(`.state-bar[data-state="${state}"]`, { timeout: 60_000 })

test(
  '19: a cut stream shows its category, its raw error and the text thrown away; the copied answer is the turn’s',
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
    await page.keyboard.press('e')
    await scar.waitFor()
    const text = await scar.innerText()
    assert.match(text, /attempt 1/)
    assert.match(text, /model_stream_interrupted/)
    assert.equal((await scar.locator('del').count()) > 0, true, 'what was thrown away is struck out')
    await page.getByRole('button', { name: 'copy answer' }).click()
    const copied = await page.evaluate(() => navigator.clipboard.readText())
    const turn = await real.call('GET', `/v1/turns/${turnId}`)
    assert.equal(copied, (turn['result'] as { text: string }).text)
    assert.deepEqual([violations, foreign], [[], []])
    await context.close()
  },
)

test(
  '41: killed with kill -9 in the middle, the page says so, comes back at the same address without a reload, and shows what a fresh page shows',
  options,
  async () => {
    await using real = await RealDaemon.start({
      plan: 'seed=7,rate=0.2,faults=reset:3+status:503',
      model: 'rehearsal/steps-40',
      flags: ['--backoff-ms', '100'],
    })
    const { id } = await real.turn()
    const { page, context, violations } = await openPage(browser, real.open(`/s/${id}`))
    await page.waitForSelector('[data-step="3"]')
    await page.evaluate(() => void Reflect.set(globalThis, 'isSamePage', true))
    const { url } = real
    for (let kill = 0; kill < 3; kill += 1) {
      await real.kill9()
      await page.waitForSelector('[data-link="lost"]')
      assert.equal(await page.getByRole('button', { name: 'Cancel' }).first().getAttribute('aria-disabled'), 'true')
      await real.up()
      assert.equal(real.url, url, 'the same address after a restart')
      await page.waitForSelector('[data-link="open"]', { timeout: 60_000 })
      await page.waitForFunction((n) => document.querySelectorAll('[data-scar="takeover"]').length >= n, kill + 1, {
        timeout: 60_000,
      })
    }
    await stateIs(page, 'finished')
    assert.equal(await page.evaluate(() => Reflect.get(globalThis, 'isSamePage')), true, 'it was never reloaded')
    const fresh = await openPage(browser, real.open(`/s/${id}`))
    await stateIs(fresh.page, 'finished')
    const [live, replayed] = [await readTurn(page), await readTurn(fresh.page)]
    assert.ok(live === replayed, `not the same fold as a fresh replay:\n${differs(live, replayed)}`)
    assert.match(await readTurn(page), /No daemon ran it for/)
    assert.deepEqual([...violations, ...fresh.violations], [])
    await fresh.context.close()
    await context.close()
  },
)
