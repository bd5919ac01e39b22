/** Takes a picture of every screen and state, to be looked at. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { launch, openPage } from './chromium.ts'
import { IDS, stageFleet } from './stage.ts'
import type { StagedDaemon } from './staged-daemon.ts'

type Shot = {
  readonly name: string
  readonly hash: string
  readonly before?: (page: Page, staged: StagedDaemon) => Promise<void>
}

export const SHOTS: readonly Shot[] = [
  { name: 'fleet', hash: '/' },
  { name: 'fleet-filter', hash: '/?state=failed' },
  { name: 'turn-retrying', hash: `/s/${IDS.retrying}` },
  { name: 'turn-inspector', hash: `/s/${IDS.retrying}?step=10&attempt=1` },
  { name: 'turn-running', hash: `/s/${IDS.running}` },
  { name: 'turn-finished', hash: `/s/${IDS.finished}` },
  {
    name: 'turn-undo',
    hash: `/s/${IDS.finished}`,
    before: async (page) => {
      await page.getByRole('button', { name: 'undo…' }).click()
      await page.getByRole('button', { name: 'Put back' }).waitFor()
    },
  },
  { name: 'turn-needs', hash: `/s/${IDS.needs}` },
  { name: 'turn-approval', hash: `/s/${IDS.approval}` },
  {
    name: 'turn-deny',
    hash: `/s/${IDS.approval}`,
    before: async (page) => {
      await page.getByRole('button', { name: 'Deny' }).last().click()
      await page.getByLabel('Why? The model reads it').waitFor()
    },
  },
  { name: 'turn-parked', hash: `/s/${IDS.parked}` },
  { name: 'turn-unknown', hash: `/s/${IDS.unknown}` },
  { name: 'turn-failed', hash: `/s/${IDS.failed}` },
  {
    name: 'turn-away',
    hash: `/s/${IDS.running}`,
    before: async (page, staged) => {
      await page.waitForSelector('.state-bar')
      staged.goAway()
      await page.waitForSelector('[data-connection="lost"]')
    },
  },
  { name: 'faults', hash: '/faults' },
  { name: 'fault', hash: '/faults/f1' },
  { name: 'catalogue', hash: '/faults/catalogue' },
  { name: 'category', hash: '/faults/catalogue/model_overloaded' },
  { name: 'system', hash: '/system' },
  { name: 'new', hash: '/new' },
  { name: 'demo', hash: '/demo' },
  { name: 'gateway', hash: '/gateway' },
  { name: 'bundle', hash: '/bundle' },
  {
    name: 'keys',
    hash: '/',
    before: async (page) => {
      await page.getByRole('button', { name: '? keys' }).click()
    },
  },
  {
    name: 'empty',
    hash: '/',
    before: async (page, staged) => {
      await page.waitForSelector('[data-session]') // a snapshot that is on its way would bring them all back
      for (const id of Object.values(IDS)) staged.send({ watch: { deleted: id } })
      staged.send({ watch: { counts: { needs: 0 } } })
      await page.waitForSelector('#first-prompt')
    },
  },
]

const WIDTHS = [1280, 390] as const
const HEIGHT_MAX = 1_600
const THEMES = ['light', 'dark'] as const

export async function takeShots(folder: string, only: readonly string[]): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const browser = await launch()
  await using staged = await stageFleet()
  const wanted = SHOTS.filter(({ name }) => only.length === 0 || only.some((part) => name.includes(part)))
  for (const { name, hash, before } of wanted) {
    for (const width of WIDTHS) {
      for (const colorScheme of THEMES) {
        const address = staged.open(hash)
        const { page, context, violations } = await openPage(browser, address, {
          viewport: { width, height: 800 },
          colorScheme,
        })
        await page.waitForSelector('[data-link="open"]')
        await before?.(page, staged)
        await page.waitForTimeout(250)
        const height = Math.min(HEIGHT_MAX, await page.evaluate(() => document.documentElement.scrollHeight))
        const whole = /^\/(?:$|\?|s\/)/.test(hash) ? {} : { fullPage: true, clip: { x: 0, y: 0, width, height } }
        await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`), ...whole })
        if (violations.length > 0) process.stdout.write(`${name}: ${violations.join('; ')}\n`)
        await context.close()
        staged.isAway = false
      }
    }
  }
  const { page, context } = await openPage(browser, `${staged.url}/`)
  await page.waitForSelector('#token')
  await page.screenshot({ path: join(folder, 'login-1280-light.png') })
  await context.close()
  await browser.close()
}
