/** Size and speed: 10,000 events, 800 steps, a fast stream under a reader’s eye, many sessions. */
import assert from 'node:assert/strict'
import type { Locator, Page } from 'playwright-core'
import { Journal } from '../kit/journal.ts'
import { StagedDaemon } from '../kit/staged-daemon.ts'
import { browserTest, textOf } from '../kit/suite.ts'

const session = (
  id: string,
  title: string,
  state: string,
  at: number,
): Readonly<Record<string, unknown>> & { readonly id: string } => ({
  id,
  boxId: id,
  turnId: null,
  title,
  state: 'idle',
  model: 'm',
  createdAt: new Date(at).toISOString(),
  updatedAt: new Date(at).toISOString(),
  lastSeq: 1,
  policy: {},
  turn: {
    id: `t-${id}`,
    state,
    prompt: title,
    steps: 3,
    attempts: 3,
    marks: '-x--',
    faultsSurvived: 1,
    unknownOutcomes: 0,
    startedAt: new Date(at).toISOString(),
    endedAt: new Date(at).toISOString(),
    fault: null,
    parked: null,
    retry: null,
  },
})

async function cost(page: Page): Promise<{ readonly heapMb: number; readonly nodes: number }> {
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('HeapProfiler.collectGarbage')
  const { usedSize } = await cdp.send('Runtime.getHeapUsage')
  const { nodes } = await cdp.send('Memory.getDOMCounters')
  return { heapMb: usedSize / 1e6, nodes }
}

const isOnScreen = (page: Page, id: string): Promise<unknown> =>
  page.waitForFunction((wanted) => {
    const box = document.getElementById(wanted)?.getBoundingClientRect()
    return box !== undefined && box.top > 0 && box.top < innerHeight
  }, id)

browserTest(
  '800 steps and 10,000 events fold, open, are searched by the page and by the browser, and stay within 40 MB and 25,000 nodes',
  async ({ open }) => {
    await using staged = await StagedDaemon.start()
    const journal = new Journal('s1', Date.now() - 900_000).turn('t1', 'Write 800 lines')
    for (let n = 1; n <= 800; n += 1) {
      journal.step()
      if (n % 9 === 0) journal.say('half an ans', 20).retry('model_stream_interrupted', 'read ECONNRESET', 50).wait(60)
      journal
        .say(`Step ${n}: needle-${n}. `.repeat(6), 300)
        .call('bash', { command: `echo ${n}` })
        .output(`${n}\n`)
        .result('ok', '')
    }
    staged.put(session('s1', 'Long', 'running', Date.now()), journal.step().say('done', 5).end('done', 88).events)
    assert.ok(journal.events.length > 8_000, String(journal.events.length))
    const page = await open(staged.open('/s/s1'))
    await page.waitForSelector('.state-bar[data-state="finished"]')
    const folded = await cost(page)
    assert.ok(folded.heapMb <= 40 && folded.nodes <= 25_000, JSON.stringify(folded))
    await page.keyboard.press('e')
    await page.waitForFunction(() => document.querySelectorAll('.lane').length > 500)
    const unfolded = await cost(page)
    assert.ok(unfolded.heapMb <= 40 && unfolded.nodes <= 25_000, JSON.stringify(unfolded))

    // The browser's own search finds what is far from the screen, too, and its hit is shown.
    const far = page.locator('[data-for="step-400"]')
    await far.waitFor({ state: 'attached' })
    assert.equal(await page.locator('#step-400').count(), 0, 'far away, only its text is in the page')
    await far.evaluate((hit) => hit.dispatchEvent(new Event('beforematch', { bubbles: true })))
    await isOnScreen(page, 'step-400')
    for (const n of [1, 2, 400, 799]) {
      const isFound = await page.evaluate((text) => {
        getSelection()?.removeAllRanges()
        return Reflect.apply(Reflect.get(window, 'find'), window, [text])
      }, `needle-${n}.`)
      assert.equal(isFound, true, `needle-${n}`)
    }

    await page.keyboard.press('w')
    await page.locator('#search').fill('needle-400')
    await page.getByText('1 of 1 steps').waitFor()
    await isOnScreen(page, 'step-400')
  },
)

browserTest(
  'what a person reads moves 0 px while 2,000 events arrive below; End follows again, and none is lost',
  async ({ open }) => {
    await using staged = await StagedDaemon.start()
    const journal = new Journal('s1', Date.now() - 60_000).turn('t1', 'Write')
    for (let n = 1; n <= 30; n += 1)
      journal
        .step()
        .say(`Paragraph ${n}. `.repeat(10), 50)
        .call('bash', { command: `echo ${n}` })
        .output(`${n}\n`)
        .result('ok', '')
    journal.step()
    staged.put(session('s1', 'Busy', 'running', Date.now()), journal.events)
    const page = await open(staged.open('/s/s1'))
    await page.waitForSelector('.state-bar[data-state="running"]')
    await page.keyboard.press('e')
    await page.waitForSelector('#step-10')
    await page.locator('#step-10').scrollIntoViewIfNeeded()
    await page.getByRole('button', { name: 'follow' }).waitFor()
    await page.evaluate(() => {
      const moves: number[] = []
      Reflect.set(globalThis, 'moves', moves)
      const step = document.getElementById('step-10')
      const from = step?.getBoundingClientRect().top ?? 0
      const look = (): void => {
        moves.push(Math.abs((step?.getBoundingClientRect().top ?? 0) - from))
        requestAnimationFrame(look)
      }
      look()
    })
    for (let burst = 0; burst < 10; burst += 1) {
      const from = journal.events.length
      for (let n = 0; n < 4; n += 1)
        journal
          .say('z'.repeat(24 * 40), 100)
          .call('bash', { command: 'echo' })
          .output('x\n')
          .result('ok', '')
          .step()
      staged.push('s1', ...journal.events.slice(from))
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)))
    }
    const head = journal.events.length
    await page.waitForFunction(() => document.querySelectorAll('.step').length >= 70)
    const moves = await page.evaluate(() => Reflect.get(globalThis, 'moves') as number[])
    assert.ok(moves.length > 5)
    assert.equal(Math.max(...moves), 0)
    await page.keyboard.press('End')
    await page.waitForFunction(() => {
      const talk = document.querySelector('.talk')
      return talk !== null && talk.scrollHeight - talk.scrollTop - talk.clientHeight < 60
    })
    staged.push('s1', ...journal.end('done', 0).events.slice(head))
    await page.waitForSelector('.state-bar[data-state="finished"]')
    assert.match(await textOf(page, '.ending'), /71 steps/)
  },
)

browserTest(
  'the thread keeps its newest lane in sight, and stands still once a person scrolls it',
  async ({ open }) => {
    await using staged = await StagedDaemon.start()
    const journal = new Journal('s1', Date.now() - 600_000).turn('t1', 'Write')
    const fail = (): Journal => journal.step().say('One. ', 5).retry('model_overloaded', '503', 5).wait(9)
    for (let n = 0; n < 40; n += 1) fail().say('Two. ', 5).call('bash', { command: 'true' }).result('ok', '')
    staged.put({ id: 's1', title: 'Write', state: 'busy' }, journal.events)
    const page = await open(staged.open('/s/s1'))
    const lane = (n: number): Locator => page.locator(`.lane:has(.seg[data-step="${n}"])`)
    const isInSight = (n: number): Promise<unknown> =>
      lane(n).evaluate((element) => {
        const [inner, outer] = [element, element.closest('.lanes-box') ?? element].map((e) => e.getBoundingClientRect())
        return inner !== undefined && outer !== undefined && inner.bottom <= outer.bottom && inner.top >= outer.top
      })
    const grow = async (): Promise<void> => {
      const from = journal.events.length
      fail()
      staged.push('s1', ...journal.events.slice(from))
    }
    await lane(40).waitFor()
    assert.equal(await isInSight(40), true)
    await grow()
    await lane(41).waitFor()
    assert.equal(await isInSight(41), true)

    await page.locator('.lanes-box').evaluate(
      (box) =>
        new Promise((resolve) => {
          box.addEventListener('scroll', () => requestAnimationFrame(resolve), { once: true })
          box.scrollTop = 0
        }),
    )
    await grow()
    await lane(42).waitFor()
    assert.equal(await page.locator('.lanes-box').evaluate((box) => box.scrollTop), 0)
    assert.equal(await isInSight(1), true)
  },
)

browserTest('a tab in the background gets no frames, and is whole when it is looked at', async ({ open }) => {
  await using staged = await StagedDaemon.start()
  const journal = new Journal('s1', Date.now() - 60_000).turn('t1', 'Write').step().say('One. ', 5)
  staged.put(session('s1', 'Hidden', 'running', Date.now()), journal.events)
  const page = await open(staged.open('/s/s1'), {
    onOpen: async (context) => {
      await context.addInitScript(() => {
        const draw = globalThis.requestAnimationFrame.bind(globalThis)
        const isHidden = (): boolean => document.documentElement.dataset['hidden'] === 'yes'
        Object.defineProperty(document, 'visibilityState', { get: () => (isHidden() ? 'hidden' : 'visible') })
        globalThis.requestAnimationFrame = (run) => (isHidden() ? 0 : draw(run))
      })
    },
  })
  await page.waitForSelector('.state-bar[data-state="running"]')
  await page.evaluate(() => {
    document.documentElement.dataset['hidden'] = 'yes'
  })
  const head = journal.events.length
  staged.push('s1', ...journal.say('Two. ', 5).end('One. Two. ', 0).events.slice(head))
  await page.waitForSelector('.state-bar[data-state="finished"]', { state: 'attached' })
  await page.locator('.md', { hasText: 'One. Two.' }).waitFor({ state: 'attached' })
})

browserTest('a tab that was frozen while 50,000 events arrived comes back whole', async ({ open }) => {
  await using staged = await StagedDaemon.start()
  const journal = new Journal('s1', Date.now() - 60_000).turn('t1', 'Write').step().say('One. ', 5)
  staged.put(session('s1', 'Frozen', 'running', Date.now()), journal.events)
  const page = await open(staged.open('/s/s1'))
  await page.waitForSelector('.state-bar[data-state="running"]')
  const cdp = await page.inContext.newCDPSession(page)
  await cdp.send('Page.setWebLifecycleState', { state: 'frozen' })
  for (let n = 1; journal.events.length < 50_000; n += 1) {
    const from = journal.events.length
    journal
      .say(`needle-${n} `.padEnd(24 * 120, 'z'), 100)
      .call('bash', { command: `echo ${n}` })
      .output(`${n}\n`)
      .result('ok', '')
      .step()
    staged.push('s1', ...journal.events.slice(from))
  }
  const steps = journal.events.filter(({ type }) => type === 'step-start').length
  const head = journal.events.length
  staged.push('s1', ...journal.end('done', 0).events.slice(head))
  await cdp.send('Page.setWebLifecycleState', { state: 'active' })
  await page.waitForSelector('.state-bar[data-state="finished"]')
  assert.match(await textOf(page, '.ending'), new RegExp(`${steps} steps`))
  await page.locator('#search').fill(`needle-${steps - 1} `)
  await page.getByText('1 of 1 steps').waitFor()
  const { heapMb, nodes } = await cost(page)
  assert.ok(heapMb <= 40 && nodes <= 25_000, JSON.stringify({ heapMb, nodes }))
})

browserTest('of 1,000 sessions 100 are shown at a time, and a filter finds the failed session', async ({ open }) => {
  await using staged = await StagedDaemon.start()
  const all = Array.from({ length: 1_000 }, (_, n) =>
    session(`s${n}`, `Session ${n}`, n === 777 ? 'failed' : 'finished', Date.now() - n * 1_000),
  )
  for (const one of all.slice(0, 50)) staged.put(one)
  staged.counts = { finished: 999, failed: 1 }
  staged.handle = ({ url }) => {
    if (url.pathname !== '/v1/sessions') return undefined
    const states = url.searchParams.get('state')?.split(',') ?? []
    const from = Number(url.searchParams.get('cursor') ?? 0)
    const found = all.filter(({ turn }) => states.includes((turn as { state: string }).state))
    const to = from + Number(url.searchParams.get('limit') ?? found.length)
    const next = to < found.length ? { next: String(to) } : {}
    return { json: { sessions: found.slice(from, to), counts: staged.counts, ...next } }
  }
  const page = await open(staged.open())
  await page.locator('[data-filter="finished"]').click()
  await page.waitForSelector('[data-shown="100"]')
  for (const shown of [200, 300]) {
    await page.keyboard.press('End')
    await page.waitForSelector(`[data-shown="${shown}"]`)
  }
  assert.ok((await cost(page)).nodes <= 25_000)
  await page.locator('[data-filter="failed"]').click()
  await page.waitForSelector('[data-session="s777"]')
  assert.equal(await page.locator('[data-session]').count(), 1)
})

browserTest(
  'a daemon that leaves out an event again and again is asked less and less often, but at least every 5 s',
  async ({ open }) => {
    await using staged = await StagedDaemon.start()
    const { events } = new Journal('s1', Date.now())
      .turn('t1', 'go')
      .step()
      .say('One, two and three words. '.repeat(4), 5)
    staged.put(session('s1', 'Gap', 'running', Date.now()), events.toSpliced(4, 1))
    const page = await open(staged.open('/s/s1'), {
      clockAt: Date.now(),
      onOpen: async (context) => {
        await context.addInitScript(() => {
          Math.random = () => 0.99
          const sockets = { made: 0, closed: 0 }
          Reflect.set(globalThis, 'sockets', sockets)
          globalThis.WebSocket = class extends globalThis.WebSocket {
            constructor(...given: ConstructorParameters<typeof WebSocket>) {
              super(...given)
              sockets.made += 1
              this.addEventListener('close', () => (sockets.closed += 1))
            }
          }
        })
      },
    })
    type Sockets = { readonly made: number; readonly closed: number }
    const sockets = (): Promise<Sockets> => page.evaluate(() => Reflect.get(globalThis, 'sockets') as Sockets)
    await page.waitForSelector('.state-bar')
    await page.clock.pauseAt(Date.now() + 60_000) // from now on only the test moves the page's clock
    const waits: number[] = []
    while (waits.length < 8) {
      await page.waitForFunction(() => {
        const { made, closed } = Reflect.get(globalThis, 'sockets') as Sockets
        return made === closed
      })
      const { made } = await sockets()
      let waited = 0
      for (; (await sockets()).made === made && waited < 10_000; waited += 125) await page.clock.runFor(125)
      waits.push(waited)
    }
    assert.ok(Math.max(...waits) <= 5_000, waits.join())
    assert.ok((waits.at(-1) ?? 0) >= 4_000, waits.join())
    assert.deepEqual(
      waits,
      waits.toSorted((a, b) => a - b),
    )
  },
)
