/** `breakfall demo`: each button's fault appears in the thread and heals, and kill -9 of the daemon does too (69). */
import assert from 'node:assert/strict'
import { Place } from '../../../../e2e/breakfall.ts'
import { browserTest, isLive } from '../kit/suite.ts'

browserTest(
  '69: cut an answer, refuse one, kill -9 the daemon: the thread shows each, and the turn continues',
  async ({ open }) => {
    await using place = new Place()
    const demo = place.start(['demo', '--json', '--print'])
    const line = await demo.line((text) => text.includes('#ticket='))
    const [url = ''] = /http:[^"\s]+#ticket=[^"\s]+/.exec(line) ?? []
    const page = await open(url)
    await isLive(page)
    await page.getByRole('link', { name: 'Demo' }).click()
    await page.getByRole('button', { name: 'Start a turn' }).click()
    await page.waitForSelector('.state-bar')
    for (const [name, category] of [
      ['cut it', 'broke off'],
      ['answer 503', 'overloaded'],
    ] as const) {
      await page.getByRole('button', { name, exact: true }).click()
      await page.locator('.lane-notes', { hasText: category }).first().waitFor()
    }
    await page.getByRole('button', { name: 'kill -9 the daemon' }).click()
    await page.waitForSelector('[data-link="lost"]')
    await page.waitForSelector('.mark.takeover', { timeout: 60_000 })
    await isLive(page)
    assert.match(await page.locator('.page').innerText(), /lost 0/)
  },
)
