/** One page, many daemons: a balancer sends it to any of them, and it survives the death of the one it talked to. */
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import type { Page } from 'playwright-core'
import { JoinedRig } from '../../../../e2e/fleet/joined-rig.ts'
import { openFrontDoor } from '../../../../e2e/fleet/nemesis/front-door.ts'
import { noChromium } from '../kit/chromium.ts'
import { browserTest, isLive, readTurn } from '../kit/suite.ts'

const PATIENT = { timeout: 60_000 } // a lease has to run out first

const held = Promise.withResolvers<void>()

let rig: JoinedRig
before(async () => {
  if (noChromium !== false) return
  rig = await JoinedRig.start(({ messages }) => {
    const given = messages.filter(({ role }) => role === 'assistant').length
    if (given === 0) return { text: 'First.', calls: [{ tool: 'bash', arguments: { command: 'echo one >> effects' } }] }
    return { until: held.promise, text: 'All done.' }
  })
})
after(() => rig?.[Symbol.asyncDispose]())

const show = (page: Page, hash: string): Promise<unknown> =>
  page.evaluate((to) => {
    location.hash = to
  }, `#${hash}`)

browserTest(
  'a ticket of one daemon opens the page at another; when that one is killed, the page continues at the next, and System shows the whole fleet',
  async ({ open }) => {
    const [a, b] = await Promise.all([rig.daemon('daemon a'), rig.daemon('daemon b')])
    const runners = await Promise.all(
      ['one', 'two'].map(async (name) => {
        const runner = await rig.runner(name, [a, b], ['--fleet-key-file', rig.keyFile])
        await runner.program.line((line) => line.includes('"joined"'))
        return runner
      }),
    )
    const portOf = ({ api }: typeof a): number => Number(new URL(api.url).port)
    let ports: readonly number[] = [portOf(b)]
    const door = await openFrontDoor(() => ports)
    try {
      const { json } = await a.api.call<{ ticket: string }>('POST', '/v1/console/tickets', {})
      const page = await open(`${door.url}/#ticket=${json.ticket}`)
      await isLive(page)
      const again = await b.api.call('POST', '/v1/console/tokens', { ticket: json.ticket })
      assert.equal(again.status, 401, 'a ticket is used up for all daemons')

      const { id } = await b.api.session({ box: { workspace: rig.workspace } })
      await b.api.prompt(id, 'two steps')
      await page.locator(`[data-session="${id}"]`, { hasText: 'at daemon b' }).waitFor()
      await show(page, `/s/${id}`)
      await page.waitForSelector('[data-step="2"]')
      await page.evaluate(() => void Reflect.set(globalThis, 'isSamePage', true))

      ports = [portOf(a), portOf(b)]
      await b.program.kill('SIGKILL')
      await page.locator('[data-connection="restarted"]', { hasText: 'connected to daemon a now' }).waitFor(PATIENT)
      const scar = page.locator('[data-scar="takeover"]')
      await scar.waitFor(PATIENT)
      assert.match(await scar.innerText(), /daemon a took it over/)
      held.resolve()
      await page.waitForSelector('.state-bar[data-state="finished"]')
      assert.equal(await page.evaluate(() => Reflect.get(globalThis, 'isSamePage')), true, 'it was never reloaded')
      const fresh = await page.inContext.newPage()
      await fresh.goto(`${door.url}/#/s/${id}`)
      await fresh.waitForSelector('.state-bar[data-state="finished"]')
      assert.equal(await readTurn(page), await readTurn(fresh))
      assert.deepEqual(rig.effects(), ['one'])

      await show(page, '/system')
      const daemons = page.getByRole('region', { name: 'Daemons' })
      await daemons.locator('tr', { hasText: /daemon a serves this page\s*● live/ }).waitFor()
      await daemons.locator('tr', { hasText: 'daemon b' }).waitFor({ state: 'detached', ...PATIENT })
      const table = page.getByRole('region', { name: 'Runners' })
      await page.getByRole('region', { name: 'Boxes' }).locator('tr', { hasText: rig.workspace }).waitFor()
      for (const runner of runners) await table.locator('tr', { hasText: runner.id.slice(0, 13) }).waitFor()
    } finally {
      await door.close()
    }
  },
)
