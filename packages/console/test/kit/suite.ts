/** What every browser test file shares: one browser, a page per case, and no case that leaves a violation behind. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { LIMIT } from '../../../../test/kit/wait.ts'
import { launch, noChromium, openPage, type PageOptions } from './chromium.ts'

export type Case = {
  readonly browser: Browser
  /** Opens a page in a new context. Everything that it must never do fails the case. */
  readonly open: (address: string, options?: PageOptions) => Promise<Page & { readonly inContext: BrowserContext }>
}

let browser: Browser | undefined
before(async () => {
  if (noChromium === false) browser = await launch()
})
after(() => browser?.close())

export function browserTest(name: string, run: (one: Case) => Promise<void>): void {
  test(name, { ...LIMIT, skip: noChromium }, async () => {
    if (browser === undefined) return
    const here = browser
    const contexts: BrowserContext[] = []
    const wrong: string[][] = []
    try {
      await run({
        browser: here,
        open: async (address, options) => {
          const { page, context, violations, foreign } = await openPage(here, address, options)
          contexts.push(context)
          wrong.push(violations, foreign)
          return Object.assign(page, { inContext: context })
        },
      })
      assert.deepEqual(wrong.flat(), [], 'errors, blocked content, dialogs, requests to elsewhere')
    } finally {
      for (const context of contexts) await context.close()
    }
  })
}

/** The text of an element, with blanks as one. */
export const textOf = async (page: Page, selector: string): Promise<string> =>
  ((await page.locator(selector).first().textContent()) ?? '').replaceAll(/\s+/g, ' ').trim()

export const isLive = (page: Page): Promise<unknown> => page.waitForSelector('[data-link="open"]', { timeout: 60_000 })

/** Every step of the turn, unfolded. */
export async function unfold(page: Page): Promise<void> {
  await page.keyboard.press('e')
  await page.waitForFunction(() => document.querySelector('.talk .fold-line [aria-expanded="false"]') === null)
}

/** What a person reads of the whole turn, without what changes by the second. */
export async function readTurn(page: Page): Promise<string> {
  await unfold(page)
  await page.waitForSelector('.talk .md p') // before that its Markdown is still plain text
  return page.evaluate(() =>
    (document.querySelector('.talk')?.textContent ?? '').replaceAll(/just now|\d+ (?:s|min) ago|↓ follow/g, ''),
  )
}

/** Presses a button that copies, and returns what it copied. */
export async function copied(page: Page, name: string): Promise<string> {
  await page.getByRole('button', { name }).click()
  await page.getByText('✓ copied').first().waitFor()
  return page.evaluate(() => navigator.clipboard.readText())
}
