/** `breakfall demo`: the fault of every button appears in the thread and heals (69). */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { eventually } from '../../../../test/kit/wait.ts'
import { Place } from '../../../../e2e/breakfall.ts'
import { browserTest, isLive } from '../kit/suite.ts'

const PATIENT = { timeout: 60_000 }

/** The runner as the page's System shows it, and its process. */
async function runnerOf(page: Page): Promise<{ readonly address: string; readonly pid: number }> {
  await page.getByRole('link', { name: 'System' }).click()
  const fact = async (part: string, name: string): Promise<string> =>
    page.locator(`[data-part="${part}"] dt:text-is("${name}") + dd`).innerText()
  const [address, stateDir] = [await fact('Runner', 'address'), await fact('Daemon', 'state folder')]
  await page.getByRole('link', { name: 'Demo' }).click()
  const { pid } = JSON.parse(readFileSync(join(stateDir, '../runner/runner.json'), 'utf8')) as { pid: number }
  return { address, pid }
}

browserTest('whatever a button breaks, the thread shows it, and the turn continues', async ({ open }) => {
  await using place = new Place()
  const demo = place.start(['demo', '--json', '--print'])
  const line = await demo.line((text) => text.includes('#ticket='))
  const [url = ''] = /http:[^"\s]+#ticket=[^"\s]+/.exec(line) ?? []
  const page = await open(url)
  await isLive(page)
  await page.getByRole('link', { name: 'Demo' }).click()
  await page.getByRole('button', { name: 'Start a turn' }).click()
  await page.waitForSelector('.state-bar')
  const press = (name: string): Promise<void> => page.getByRole('button', { name, exact: true }).click()
  const step = async (): Promise<number> =>
    Number(/step (\d+) · survived/.exec(await page.locator('.page').innerText())?.[1])
  /** The turn takes another step. */
  const heals = async (): Promise<unknown> =>
    page.waitForFunction(
      (last) => Number(/step (\d+) · survived/.exec(document.querySelector('.page')?.textContent ?? '')?.[1]) > last,
      await step(),
      PATIENT,
    )
  /** So many faults are behind it: each was followed by a call or a step. */
  const survives = (count: number): Promise<unknown> =>
    page.waitForFunction(
      (least) => Number(/survived (\d+) ·/.exec(document.querySelector('.page')?.textContent ?? '')?.[1]) >= least,
      count,
      PATIENT,
    )
  const injected = page.locator('.injections li')
  // Between two calls a runner is replaced before anybody looks for it: then the thread has nothing to show.
  let moved = { pid: 0, from: '' }
  const loseRunners = async (): Promise<void> => {
    const first = await runnerOf(page)
    await press('kill the runner')
    await page.getByText('The runner was killed.').first().waitFor()
    const second = await eventually('another runner at the same address', async () => {
      const runner = await runnerOf(page)
      return runner.pid !== first.pid && runner
    })
    assert.equal(second.address, first.address)
    await press('move the runner')
    await page.getByText('The runner moved to another port.').first().waitFor()
    moved = { pid: second.pid, from: second.address }
  }
  /** Moved, it is the same process at another address, once a command has looked for it. */
  const isMoved = (): Promise<unknown> =>
    eventually('the same runner at another address', async () => {
      const runner = await runnerOf(page)
      assert.equal(runner.pid, moved.pid)
      return runner.address !== moved.from
    })
  const faults = [
    ['cut it', 'reset', 'broke off'],
    ['end it early', 'early_end', 'ended without proof'],
    ['stall 8 s', 'stall', 'went silent'],
    ['answer 503', 'status 503', 'overloaded'],
    ['answer 429, wait 5 s', 'status 429', 'limits the request rate'],
    ['garble it', 'malformed_line', ''],
  ] as const
  for (const [index, [name, kind, note]] of faults.entries()) {
    await press(name)
    await injected
      .filter({ hasText: `injected ${kind}` })
      .filter({ hasText: '→ scar at' })
      .first()
      .waitFor(PATIENT)
    await page.locator('.lane-notes', { hasText: note }).first().waitFor(PATIENT)
    if (kind === 'status 429') await loseRunners() // while it waits
    await survives(index + 1)
  }
  await isMoved()
  const before = await injected.count()
  await page.locator('#rate').fill('50')
  await press('Apply')
  await page.getByText('50 % of answers are broken from now on.').waitFor()
  await injected.nth(before).waitFor(PATIENT)
  await page.locator('#rate').fill('0')
  await press('Apply')
  await page.getByText('Nothing is broken from now on.').waitFor()
  await heals()
  await press('kill -9 the daemon')
  await page.waitForSelector('[data-link="lost"]')
  await page.waitForSelector('.mark.takeover', PATIENT)
  await isLive(page)
  await heals()
  assert.match(await page.locator('.page').innerText(), /lost 0/)
})
