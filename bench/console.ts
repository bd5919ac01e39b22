/** What the console costs: bytes, first paint, a turn of 10,000 events, and a stream of 200 events a second under the eye. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Page } from 'playwright-core'
import { buildConsole } from '../packages/console/build.mjs'
import { launch } from '../packages/console/test/kit/chromium.ts'
import { Journal } from '../packages/console/test/kit/journal.ts'
import { StagedDaemon } from '../packages/console/test/kit/staged-daemon.ts'
import { quantile, report, round, table } from './kit.ts'

const STEPS = 800
const SECONDS = 10
const EVENTS_PER_SECOND = 200

const folder = await buildConsole()
const bytes = (pattern: string): number =>
  globSync(`assets/${pattern}`, { cwd: folder }).reduce(
    (sum, file) => sum + gzipSync(readFileSync(join(folder, file)), { level: 9 }).length,
    0,
  )

await using staged = await StagedDaemon.start()
const long = longTurn()
staged.put({ id: 's1', title: 'Long' }, long.events)
const live = new Journal('s2', Date.now()).turn('t2', 'Write').step()
staged.put({ id: 's2', title: 'Live', state: 'busy' }, live.events)

const browser = await launch()
const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage()
const loads: number[] = []
const lists: number[] = []
for (let load = 0; load < 7; load += 1) {
  await page.goto('about:blank')
  const from = performance.now()
  await page.goto(staged.open('/'))
  await page.waitForSelector('[data-session]')
  lists.push(performance.now() - from)
  loads.push(await page.evaluate<number>("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"))
}

const opened: number[] = []
for (let open = 0; open < 5; open += 1) {
  await page.goto('about:blank')
  const from = performance.now()
  await page.goto(staged.open('/s/s1'))
  await page.waitForSelector('.state-bar[data-state="finished"]')
  opened.push(performance.now() - from)
}
const folded = await cost(page)
await page.keyboard.press('e')
await page.waitForSelector(':nth-match(.lane, 501)', { state: 'attached' })
const unfolded = await cost(page)

await page.goto('about:blank')
await page.goto(staged.open('/s/s2'))
await page.waitForSelector('.state-bar[data-state="running"]')
const idle = await frames(page, 3_000)
const streaming = stream()
const busy = await frames(page, SECONDS * 1_000)
await streaming
await browser.close()

report('console', {
  title: 'The console in Chromium',
  text: [
    table(
      ['what', 'measured', 'budget'],
      [
        ['initial JavaScript, gzipped', `${round(bytes('main-*.js') / 1000)} kB`, '60 kB'],
        ['CSS, gzipped', `${round(bytes('style-*.css') / 1000)} kB`, '12 kB'],
        ['Markdown chunk, loaded after the first paint', `${round(bytes('markdown-*.js') / 1000)} kB`, '18 kB'],
        ['first paint, median of 7', `${round(quantile(loads, 0.5))} ms`, '500 ms'],
        ['list of sessions, median of 7', `${round(quantile(lists, 0.5))} ms`, '1000 ms'],
        [`a turn of ${long.events.length} events opens, median of 5`, `${round(quantile(opened, 0.5))} ms`, '3000 ms'],
        ['heap after garbage collection, folded', `${round(folded.heapMb)} MB`, '40 MB'],
        ['heap, everything unfolded', `${round(unfolded.heapMb)} MB`, '40 MB'],
        ['nodes, folded', folded.nodes, '25000'],
        ['nodes, everything unfolded', unfolded.nodes, '25000'],
        ['p95 frame, idle', `${round(quantile(idle, 0.95))} ms`, ''],
        [
          `p95 frame at ${EVENTS_PER_SECOND} events a second`,
          `${round(quantile(busy, 0.95))} ms`,
          `${round(quantile(idle, 0.95) * 1.5)} ms (1.5 times idle)`,
        ],
      ],
    ),
    `${STEPS} steps, every ninth with a cut stream. Frames are measured in the page with requestAnimationFrame for ${SECONDS} s. On a busy machine read the ratios.`,
  ].join('\n\n'),
})

// ---- details, in the order they are used above ----

function longTurn(): Journal {
  const journal = new Journal('s1', Date.now() - 900_000).turn('t1', 'Write 800 lines')
  for (let n = 1; n <= STEPS; n += 1) {
    journal.step()
    if (n % 9 === 0) journal.say('half an ans', 20).retry('model_stream_interrupted', 'read ECONNRESET', 50).wait(60)
    journal
      .say(`Step ${n}: a line of the answer. `.repeat(6), 300)
      .call('bash', { command: `echo ${n}` })
      .output(`${n}\n`)
      .result('ok', '')
  }
  return journal.step().say('done', 5).end('done', 88)
}

async function cost(of: Page): Promise<{ readonly heapMb: number; readonly nodes: number }> {
  const cdp = await of.context().newCDPSession(of)
  await cdp.send('HeapProfiler.collectGarbage')
  const { usedSize } = await cdp.send('Runtime.getHeapUsage')
  const { nodes } = await cdp.send('Memory.getDOMCounters')
  return { heapMb: usedSize / 1e6, nodes }
}

/** Milliseconds between frames. As text, because it runs in the page. */
function frames(of: Page, ms: number): Promise<readonly number[]> {
  return of.evaluate<readonly number[]>(`new Promise((resolve) => {
    const deltas = []
    const from = performance.now()
    let last = from
    const next = () => {
      const at = performance.now()
      deltas.push(at - last)
      last = at
      if (at - from < ${ms}) requestAnimationFrame(next)
      else resolve(deltas)
    }
    requestAnimationFrame(next)
  })`)
}

/** Ten pieces every 50 ms. */
async function stream(): Promise<void> {
  for (let burst = 0; burst < SECONDS * 20; burst += 1) {
    const from = live.events.length
    live.say('a piece of the answer…  '.repeat(EVENTS_PER_SECOND / 20), 50)
    if (burst % 20 === 19) live.call('bash', { command: 'echo' }).output('x\n').result('ok', '').step()
    staged.push('s2', ...live.events.slice(from))
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
