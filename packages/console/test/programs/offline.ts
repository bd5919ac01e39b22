/** A real daemon, a real browser and every screen, for a machine without a network. Prints what it found as JSON. */
import { networkInterfaces } from 'node:os'
import { launch, openPage } from '../kit/chromium.ts'
import { RealDaemon } from '../kit/real-daemon.ts'

await using real = await RealDaemon.start({
  model: 'rehearsal/steps-2',
  plan: 'at=2.1:reset:4',
  flags: ['--backoff-ms', '20'],
})
const browser = await launch()
try {
  const { id } = await real.turn()
  const { page, violations, foreign } = await openPage(browser, real.open(`/s/${id}`))
  await page.waitForSelector('.state-bar[data-state="finished"]', { timeout: 60_000 })
  const headings: string[] = []
  for (const hash of ['/', '/faults', '/faults/catalogue', '/system', '/bundle']) {
    await page.evaluate((to) => {
      location.hash = to
    }, `#${hash}`)
    await page.waitForFunction(
      (seen) => !seen.includes(document.querySelector('h1')?.textContent ?? seen[0] ?? ''),
      headings,
    )
    await page.waitForSelector('[data-link="open"]')
    headings.push(await page.locator('h1').first().innerText())
  }
  const interfaces = Object.keys(networkInterfaces())
  process.stdout.write(`${JSON.stringify({ interfaces, headings, wrong: [...violations, ...foreign] })}\n`)
} finally {
  await browser.close()
}
