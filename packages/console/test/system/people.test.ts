/** For everyone: axe on every screen, theme and state; keyboard only; 320 px; reduced motion; few announcements (59–61, 63–65). */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, before } from 'node:test'
import type { Page } from 'playwright-core'
import { Journal } from '../kit/journal.ts'
import { SHOTS } from '../kit/shots.ts'
import { IDS, stageFleet } from '../kit/stage.ts'
import { StagedDaemon } from '../kit/staged-daemon.ts'
import { browserTest, isLive, textOf } from '../kit/suite.ts'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

let fleet: StagedDaemon
before(async () => {
  fleet = await stageFleet()
})
after(() => fleet[Symbol.asyncDispose]())

const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

async function findings(page: Page, rules: readonly string[] = RULES): Promise<readonly string[]> {
  // Passes the content security policy, unlike a script tag.
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe)
  return page.evaluate(async (runOnly) => {
    type Found = { violations: { id: string; nodes: { target: string[]; failureSummary: string }[] }[] }
    const run: unknown = Reflect.get(globalThis, 'axe')
    const tool = run as { run: (options: unknown) => Promise<Found> }
    const { violations } = await tool.run({ runOnly })
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary.split('\n')[1] ?? ''}`),
    )
  }, rules)
}

/** Another screen of the same page: its address changes, and nothing is loaded again. */
async function show(page: Page, hash: string): Promise<void> {
  await page.evaluate((to) => {
    location.hash = to
  }, `#${hash}`)
  await isLive(page)
  await page.locator('h1').first().waitFor()
}

/** Resolves when earlier changes are on the screen: the page draws at most once per frame. */
const drawn = (page: Page): Promise<unknown> =>
  page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))))

browserTest('axe finds nothing on any screen in any state, in both themes', async ({ open }) => {
  await using staged = await stageFleet()
  const page = await open(staged.open())
  const wrong: string[] = []
  await isLive(page)
  for (const { name, hash, before: act } of SHOTS) {
    await page.emulateMedia({ colorScheme: 'light' })
    await show(page, hash)
    await act?.(page, staged)
    await page.waitForFunction(() => document.querySelector('[aria-busy="true"]') === null)
    wrong.push(...(await findings(page)).map((one) => `${name}: ${one}`))
    await page.emulateMedia({ colorScheme: 'dark' }) // only colours differ
    wrong.push(
      ...(await findings(page, ['color-contrast', 'link-in-text-block'])).map((one) => `${name}, dark: ${one}`),
    )
    staged.isAway = false
    if (act !== undefined) await page.reload()
  }
  assert.deepEqual(wrong, [])
})

browserTest(
  'at 320 px and with text at 200 % nothing scrolls sideways, and every action is reachable',
  async ({ open }) => {
    const page = await open(fleet.open(), { viewport: { width: 320, height: 640 } })
    const wide: string[] = []
    for (const { name, hash } of SHOTS.filter(({ before: act }) => act === undefined)) {
      await show(page, hash)
      for (const [size, width] of [
        ['14px', 320],
        ['28px', 640],
      ] as const) {
        await page.setViewportSize({ width, height: 640 })
        await page.evaluate((fontSize) => {
          document.documentElement.style.fontSize = fontSize
        }, size)
        await drawn(page) // parts out of sight keep their old size until then
        const actual = await page.evaluate(() => document.documentElement.scrollWidth)
        if (actual > width) wide.push(`${name} at ${size}, ${width} px: ${actual}`)
      }
    }
    assert.deepEqual(wide, [])
    await page.setViewportSize({ width: 320, height: 640 })
    await show(page, `/s/${IDS.retrying}`)
    for (const name of ['Retry now', 'Cancel', 'Why', 'Queue'])
      await page.getByRole('button', { name }).first().scrollIntoViewIfNeeded()
  },
)

browserTest(
  'everything by keyboard; live updates never take the focus; single keys can be switched off',
  async ({ open }) => {
    const page = await open(fleet.open())
    await page.waitForSelector('[data-section="needs"]')
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    const focused = (): Promise<string> => page.evaluate(() => (document.activeElement?.textContent ?? '').trim())
    const title = await focused()
    const row = page.locator('[data-session]:focus-within')
    const id = (await row.getAttribute('data-session')) ?? ''
    fleet.change({ ...fleet.sessions.get(id), id, updatedAt: new Date().toISOString() }) // the row in focus moves up
    fleet.send({ watch: { counts: { ...fleet.counts, failed: 8 } } })
    await page.locator('[data-filter="failed"]', { hasText: '8' }).waitFor()
    assert.equal(await focused(), title)
    await page.keyboard.press('Enter')
    await page.waitForSelector('.state-bar')
    await page.keyboard.press('c')
    await page.waitForSelector('#composer:focus')
    await page.keyboard.type('npx')
    assert.equal(await page.locator('#composer').inputValue(), 'npx', 'keys are dead in fields')
    await page.keyboard.press('Escape')
    await page.keyboard.press('Escape')
    await page.waitForSelector('[data-section="needs"]')
    await page.keyboard.press('g')
    await page.keyboard.press('s')
    await page.getByRole('heading', { name: 'System', exact: true }).waitFor()
    await page.keyboard.press('?')
    await page.getByLabel('Single-letter keys').uncheck()
    await page.getByRole('button', { name: 'Close', exact: true }).click()
    await page.waitForSelector('dialog[open]', { state: 'detached' })
    for (const key of ['g', 'f', '/', 'j', '?']) await page.keyboard.press(key)
    await drawn(page)
    assert.equal(await page.locator('dialog[open]').count(), 0)
    assert.match(page.url(), /#\/system$/)
    assert.equal(await textOf(page, 'h1'), 'System')
  },
)

browserTest('the thread is walked with arrow keys, bar by bar, each with a sentence for a name', async ({ open }) => {
  const page = await open(fleet.open(`/s/${IDS.retrying}`))
  await page.waitForSelector('.seg')
  await page.locator('.seg[tabindex="0"]').focus()
  const names: string[] = []
  for (const key of ['ArrowLeft', 'ArrowLeft', 'ArrowDown', 'ArrowDown', 'ArrowRight']) {
    await page.keyboard.press(key)
    await drawn(page)
    names.push(await page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? ''))
  }
  for (const name of names) assert.match(name, /^(?:Step|No daemon)/)
  assert.ok(new Set(names).size >= 4, names.join('\n'))
  assert.equal(await page.locator('.seg[tabindex="0"]').count(), 1, 'one stop for the whole thread')
})

browserTest(
  'the page of a category has each part of its document once, and no comment of its source',
  async ({ open }) => {
    const page = await open(fleet.open('/faults/catalogue/model_overloaded'))
    await page.getByRole('heading', { name: 'What you can do' }).waitFor()
    const text = (await page.locator('main').textContent()) ?? ''
    for (const part of ['What it means', 'What Breakfall does', 'On the wire'])
      assert.equal(text.split(part).length - 1, 1, part)
    assert.doesNotMatch(text, /<!--/)
  },
)

browserTest('with reduced motion nothing moves', async ({ open }) => {
  const moved = async (reducedMotion: 'reduce' | 'no-preference'): Promise<number> => {
    const page = await open(fleet.open(`/s/${IDS.retrying}`), {
      reducedMotion,
      onOpen: async (context) => {
        await context.addInitScript(() => {
          const note = (): unknown => (document.documentElement.dataset['moved'] = 'yes')
          for (const type of ['animationstart', 'transitionrun']) addEventListener(type, note, true)
        })
      },
    })
    await page.waitForSelector('.healed .stitch')
    if (reducedMotion === 'no-preference') await page.waitForSelector('html[data-moved]')
    await drawn(page)
    return page.locator('html[data-moved]').count()
  }
  assert.equal(await moved('no-preference'), 1) // a stitch draws itself
  assert.equal(await moved('reduce'), 0)
})

browserTest(
  'a minute of 200 events a second is announced in at most 20 lines, and no countdown is',
  async ({ open }) => {
    await using staged = await StagedDaemon.start()
    staged.beats = false
    const journal = new Journal('s1', Date.now()).turn('t1', 'go').step().say('x', 5)
    staged.put(
      {
        id: 's1',
        title: 'Busy',
        state: 'busy',
        model: 'm',
        createdAt: new Date().toISOString(),
        lastSeq: 1,
        turn: null,
      },
      journal.events,
    )
    const page = await open(staged.open('/s/s1'), { clockAt: Date.now() })
    await page.waitForSelector('.state-bar')
    await page.evaluate(() => {
      const said: string[] = []
      Reflect.set(globalThis, 'said', said)
      const box = document.getElementById('announcer')
      if (box !== null)
        new MutationObserver(() => said.push(box.textContent ?? '')).observe(box, {
          childList: true,
          characterData: true,
          subtree: true,
        })
    })
    await page.clock.pauseAt(Date.now() + 60_000) // from now on only the test moves the page's clock
    await page.evaluate(() => Reflect.get(globalThis, 'said').splice(0))
    for (let second = 0; second < 60; second += 1) {
      const from = journal.events.length
      if (second % 2 === 0) journal.retry('model_overloaded', '503', 900).wait(900)
      else journal.say('y'.repeat(24 * 60), 900)
      staged.push('s1', ...journal.events.slice(from))
      await page.clock.runFor(1_000)
    }
    const said = await page.evaluate(() => Reflect.get(globalThis, 'said') as string[])
    assert.ok(said.length > 0 && said.length <= 20, `${said.length} announcements`)
    for (const line of said) assert.doesNotMatch(line, /\d:\d\d/)
  },
)
