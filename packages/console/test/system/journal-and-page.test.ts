/** What the page says and counts is what the daemon journalled, at every moment. */
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { SESSION_FILTERS } from '@breakfall/wire'
import type { Page } from 'playwright-core'
import { isolation } from '../../../../e2e/breakfall.ts'
import { length } from '../../src/text/format.ts'
import { ACTIONS, faultTitle } from '../../src/turn/words.ts'
import { noChromium } from '../kit/chromium.ts'
import { RealDaemon } from '../kit/real-daemon.ts'
import { browserTest, isLive, textOf, unfold } from '../kit/suite.ts'

type Event = Readonly<Record<string, unknown>> & { readonly type: string }

let real: RealDaemon
before(async () => {
  if (noChromium !== false) return
  real = await RealDaemon.start({
    // Requests are counted from the daemon's start: this plan is that of the first test's turn.
    plan: 'at=1.1:status:429:retryAfter=25s+2.1:early_end+3.1:malformed_line+4.1:cut_tool_arguments+5.1:status:503+6.1:in_band_error+7.1:stall:300000',
    model: 'rehearsal/steps-6',
    flags: ['--backoff-ms', '20', '--liveness-ms', '2000'],
  })
})
after(() => real?.[Symbol.asyncDispose]())

const PATIENT = { timeout: 60_000 }

const stateIs = (page: Page, state: string): Promise<unknown> =>
  page.waitForSelector(`.state-bar[data-state="${state}"]`, PATIENT)

const show = (page: Page, hash: string): Promise<unknown> =>
  page.evaluate((to) => {
    location.hash = to
  }, `#${hash}`)

browserTest(
  'a turn of breakfall run with every kind of fault: list, header, card and summary say what was journalled',
  async ({ open }) => {
    const list = await open(real.open())
    await list.waitForSelector('#first-prompt')
    const run = real.place.start(['run', '--json', ...isolation, '100 % of _it_ "quoted" 🎉'])
    await list.waitForSelector('[data-session][data-state="retrying"]', PATIENT)
    const id = (await list.locator('[data-session]').first().getAttribute('data-session')) ?? ''
    const page = await open(real.open(`/s/${id}`))
    await stateIs(page, 'retrying')
    await sample(list, `[data-session="${id}"]`)
    await sample(page, '.state-bar')

    // the provider asked for 25 s; a person ends the wait, after a question, once
    await page.getByRole('button', { name: 'Retry now' }).click()
    await page.getByText(/The provider asked for 25\.0 s/).waitFor()
    await page.getByRole('button', { name: 'Retry now' }).click()
    await stateIs(page, 'finished')
    await list.waitForSelector(`[data-session="${id}"][data-state="finished"]`, PATIENT)
    const { code, json, stderr } = await run.ended
    assert.equal(code, 0, stderr)
    const summary = json.at(-1) as { faultsSurvived: number; turnId: string }
    const events = await real.events(id)
    const resumed = events.filter(({ type, because }) => type === 'resumed' && because === 'person')
    assert.equal(resumed.length, 1)

    // each journalled retry is on the page, with its category, title, wait and action
    await unfold(page)
    const retries = events.filter(({ type }) => type === 'retry')
    for (const retry of retries) {
      const { category } = retry['fault'] as { category: string }
      const scar = page.locator(`#attempt-${String(retry['step'])}-${String(retry['attempt'])}`)
      assert.equal(await scar.getAttribute('data-category'), category)
      const text = await scar.innerText()
      assert.ok(text.includes(faultTitle({ category })), text)
      const isEndedByPerson = category === 'model_rate_limited'
      const until = isEndedByPerson ? resumed[0]?.['at'] : retry['nextAt']
      const waited = Date.parse(String(until)) - Date.parse(String(retry['at']))
      const action = ACTIONS[retry['action'] as keyof typeof ACTIONS]
      assert.ok(text.includes(`waited ${length(waited)}, then ${action}`), `${text}\n${waited}`)
      if (isEndedByPerson) assert.match(text, /the provider asked for 25\.0 s/)
    }
    const categories = retries.map(({ fault }) => categoryIn(fault))
    for (const category of [
      'model_rate_limited', // 429 with Retry-After
      'model_stream_incomplete', // ended early
      'model_stream_interrupted', // a malformed line
      'tool_call_truncated',
      'model_overloaded', // 503, and an error in the stream
      'model_stream_stalled',
    ])
      assert.ok(categories.includes(category), `${category} in ${categories.join()}`)

    // summary, header, card and the daemon agree
    const turn = await real.call('GET', `/v1/turns/${summary.turnId}`)
    assert.equal(turn['faultsSurvived'], summary.faultsSurvived)
    assert.ok(summary.faultsSurvived >= 7, String(summary.faultsSurvived))
    assert.match(await textOf(page, '.state-bar .facts'), new RegExp(`survived ${summary.faultsSurvived}(?!\\d)`))
    assert.match(await textOf(list, `[data-session="${id}"]`), new RegExp(`survived ${summary.faultsSurvived}(?!\\d)`))
    await page.getByRole('button', { name: 'survival card' }).click()
    const lines = await page.locator('.survival li').allInnerTexts()
    assert.equal(
      lines.reduce((sum, line) => sum + Number.parseInt(line, 10), 0),
      summary.faultsSurvived,
    )

    // at 200 moments each, list and header said what the last event they had seen says
    real.proxy.use('seed=3,rate=0.5,attempts=2,by=fingerprint,faults=early_end+status:503')
    for (let round = 0; (await samplesOf(list)).during < 200 || (await samplesOf(page)).during < 200; round += 1) {
      const { turnId } = await real.call('POST', `/v1/sessions/${id}/turns`, { prompt: `again ${round}` })
      await page.waitForSelector(`[id="turn-${String(turnId)}"]`)
      await stateIs(page, 'finished')
      await list.waitForSelector(`[data-session="${id}"][data-state="finished"]`, PATIENT) // the other tab
    }
    real.proxy.use('none')
    const said = statesBySeq(await real.events(id))
    for (const [where, { seen }] of Object.entries({ list: await samplesOf(list), header: await samplesOf(page) })) {
      for (const [seq, state] of seen) assert.equal(state, said.get(seq), `the ${where} after event ${seq}`)
      const states = new Set(seen.map(([, state]) => state))
      for (const state of ['retrying', 'running', 'finished']) assert.ok(states.has(state), `${where}: ${state}`)
    }

    // a search matches literally
    for (const [q, isFound] of [
      ['100 %', true],
      ['_it_', true],
      ['"quoted"', true],
      ['🎉', true],
      ['100%', false],
      ['xit_', false],
    ] as const) {
      await list.locator('#search').fill(q)
      if (isFound) await list.waitForSelector(`[data-section="found"] [data-session="${id}"]`)
      else await list.getByText('No session matches').waitFor()
    }
    await list.locator('#search').fill('')

    // cancel in one tab shows in the other
    real.proxy.use('rate=1,faults=stall:60000')
    const second = await real.call('POST', `/v1/sessions/${id}/turns`, { prompt: 'to be cancelled' })
    await page.waitForSelector(`[id="turn-${String(second['turnId'])}"]`)
    await page.locator('.state-bar').getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Yes, cancel it' }).click()
    await stateIs(page, 'cancelled')
    await list.waitForSelector(`[data-session="${id}"][data-state="cancelled"]`, PATIENT)
    const ended = await real.call('GET', `/v1/turns/${String(second['turnId'])}`)
    assert.equal((ended['fault'] as { actor: string }).actor, 'user')
  },
)

browserTest(
  'while 50 sessions change, every count is that of the rows below it; their 91 resets are one fault',
  async ({ open }) => {
    real.proxy.use('rate=1,attempts=1,by=fingerprint,faults=reset:2') // the first attempt at each request
    const page = await open(real.open('/?state=running')) // stays there, while its rows come and go
    const other = await open(real.open('/?state=finished'))
    for (const one of [page, other]) {
      await isLive(one)
      await watchCounts(one)
    }
    // 41 sessions with two requests each, and 9 with one. Each has its own box: turns in one folder wait for each other.
    const turns = Array.from({ length: 50 }, (_, n) =>
      real.turn(`count ${n}`, { box: {}, model: n < 41 ? 'rehearsal/steps-1' : 'rehearsal/echo' }),
    )
    const isEnded = async (): Promise<boolean> => {
      const { counts = {} } = await real.call('GET', '/v1/sessions?limit=1&counts=1&q=count')
      return (counts as Readonly<Record<string, number>>)['finished'] === 50
    }
    const filters = ['running', 'finished', 'parked,retrying,queued', 'needs', 'failed', 'cancelled']
    for (let round = 0; !(await isEnded()); round += 1) {
      for (const state of SESSION_FILTERS) {
        const answer = await real.call('GET', `/v1/sessions?state=${state}&limit=100&counts=1`)
        const { [state]: count } = answer['counts'] as Readonly<Record<string, number>>
        assert.equal((answer['sessions'] as readonly unknown[]).length, count, state)
      }
      await show(other, `/?state=${filters[round % filters.length]}`)
      await other.waitForSelector('[data-section="found"]')
    }
    const ids = (await Promise.all(turns)).map(({ id }) => id)
    await show(other, '/?state=finished')
    await other.waitForFunction(() => document.querySelectorAll('[data-session]').length >= 50)
    await page.getByText('No session is in this state').waitFor()
    for (const one of [page, other]) {
      const { looks, wrong } = await one.evaluate(() => Reflect.get(globalThis, 'counted') as Counted)
      assert.ok(looks > 0)
      assert.deepEqual(wrong, [])
    }

    const resets = (await Promise.all(ids.map((id) => real.events(id))))
      .flat()
      .filter(({ type, fault }) => type === 'retry' && categoryIn(fault) === 'model_stream_interrupted')
    assert.equal(resets.length, 91)
    await show(page, '/faults')
    const group = page.locator('.group', { hasText: 'read ECONNRESET' })
    await group.getByText('×91', { exact: true }).waitFor()
    assert.equal(await group.count(), 1, 'one group, whatever the ports and ids')
    assert.match(await group.innerText(), /survived 91/)
    await group.getByRole('link').first().click()
    await page.waitForSelector('.occurrence')
    while ((await page.locator('.occurrence').count()) < 91) {
      const shown = await page.locator('.occurrence').count()
      await page.getByRole('button', { name: /more|older/i }).click()
      await page.waitForFunction((n) => document.querySelectorAll('.occurrence').length > n, shown)
    }
    assert.equal(await page.locator('.occurrence').count(), 91)
    await page.locator('.occurrence a').first().click()
    await page.waitForSelector('#inspector')
    assert.match(await textOf(page, '#inspector'), /model_stream_interrupted/)
  },
)

// ---- details ----

const categoryIn = (fault: unknown): unknown =>
  typeof fault === 'object' && fault !== null && 'category' in fault ? fault.category : undefined

type Samples = { readonly seen: readonly (readonly [number, string])[]; readonly during: number }

/** From now on, notes at random moments which state the element shows, and the last event that it knows. */
const sample = (page: Page, selector: string): Promise<void> =>
  page.evaluate((where) => {
    const seen: [number, string][] = []
    Reflect.set(globalThis, 'seen', seen)
    const look = (): void => {
      const element = document.querySelector(where)
      if (element !== null)
        seen.push([Number(element.getAttribute('data-seq')), element.getAttribute('data-state') ?? ''])
      setTimeout(look, Math.random() * 20)
    }
    look()
  }, selector)

/** `during`: those of a turn that was not over. */
async function samplesOf(page: Page): Promise<Samples> {
  const seen = await page.evaluate(() => Reflect.get(globalThis, 'seen') as [number, string][])
  return { seen, during: seen.filter(([, state]) => state !== 'finished').length }
}

/** What each event makes of its turn's state, as the wire defines it. */
function statesBySeq(events: readonly Event[]): ReadonlyMap<number, string> {
  let state = ''
  return new Map(
    events.map((event) => {
      state = STATE_AFTER[event.type] ?? state
      return [Number(event['seq']), state]
    }),
  )
}

const STATE_AFTER: Readonly<Record<string, string>> = {
  'turn-queued': 'queued',
  'turn-start': 'running',
  'step-start': 'running',
  'text-delta': 'running',
  'reasoning-delta': 'running',
  'tool-draft': 'running',
  'tool-call': 'running',
  'tool-output': 'running',
  'tool-result': 'running',
  resumed: 'running',
  retry: 'retrying',
  'turn-end': 'finished',
}

type Counted = { looks: number; wrong: string[] }

/** From now on, compares in every frame the number at the current filter with the rows below it. */
const watchCounts = (page: Page): Promise<void> =>
  page.evaluate(() => {
    const counted: Counted = { looks: 0, wrong: [] }
    Reflect.set(globalThis, 'counted', counted)
    const look = (): void => {
      const filter = document.querySelector('[data-filter][aria-current]')
      const found = document.querySelector('[data-section="found"]')
      if (filter !== null && found !== null) {
        counted.looks += 1
        const [says, has] = [
          filter.querySelector('strong')?.textContent,
          found.querySelectorAll('[data-session]').length,
        ]
        if (says !== String(has)) counted.wrong.push(`${filter.textContent}: ${has} rows`)
      }
      requestAnimationFrame(look)
    }
    look()
  })
