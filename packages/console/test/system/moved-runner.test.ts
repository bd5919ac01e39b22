/** A runner that moves to another address while its command runs. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startTcpProxy } from '@breakfall/chaos'
import { hasSandbox, Place } from '../../../../e2e/breakfall.ts'
import { startDemoRunner } from '../../../cli/src/demo-setup/demo-runner.ts'
import { startMovingProxy } from '../../../cli/src/demo-setup/moving-proxy.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { RealDaemon } from '../kit/real-daemon.ts'
import { browserTest, textOf } from '../kit/suite.ts'

/** Runs until the test says so. */
const COMMAND = 'echo begun; until [ -e gate ]; do sleep 0.05; done; echo over'

browserTest(
  'a runner that moves during a command is looked for inside the call; the step’s attempts stay as they are',
  async ({ open }) => {
    await using parts = new AsyncDisposableStack()
    const place = parts.use(new Place())
    const runner = await startDemoRunner({
      stateDir: join(place.home, 'runner'),
      allowWorkspace: [place.folder],
      isolation: hasSandbox ? undefined : 'process',
    })
    parts.defer(() => runner.stop())
    const moving = await startMovingProxy(new URL(runner.url).port, startTcpProxy)
    parts.defer(() => moving.close())
    const real = parts.use(
      await RealDaemon.start({
        script: inOrder({ calls: [{ tool: 'bash', arguments: { command: COMMAND } }] }, { text: 'It ran.' }),
        env: {
          BREAKFALL_RUNNER_URL: moving.url,
          BREAKFALL_RUNNER_RESOLVE_URL: moving.resolveUrl,
          BREAKFALL_RUNNER_TOKEN_FILE: runner.tokenFile,
        },
      }),
    )
    const { id } = await real.turn('go', { box: { workspace: place.folder } })
    const page = await open(real.open(`/s/${id}`))
    await page.locator('.call pre.output', { hasText: 'begun' }).waitFor()

    await moving.move()
    await page.locator('.call .more', { hasText: 'Looked for the runner 1 of' }).waitFor({ timeout: 30_000 })
    await page.locator('.lane-notes', { hasText: 'looked for the runner' }).waitFor()
    writeFileSync(join(place.folder, 'gate'), '')
    await page.waitForSelector('.state-bar[data-state="finished"]', { timeout: 30_000 })

    const looks = (await real.events(id)).filter(({ type }) => type === 'retry')
    assert.ok(looks.length > 0 && looks.every(({ action }) => action === 'resolve'))
    assert.match(
      await textOf(page, '.call .more'),
      new RegExp(`Looked for the runner ${looks.length} of \\d+: .+, then found it`),
    )
    assert.doesNotMatch(await textOf(page, '#step-1 .step-head'), /failed attempt/)
    assert.equal(await page.locator('#step-1 [data-attempt]').count(), 0)
    await page.locator('.state-bar .facts').getByText('attempts 2', { exact: true }).waitFor() // one for each of the two steps
    assert.equal(await textOf(page, '.call pre.output'), 'begun over')
  },
)
