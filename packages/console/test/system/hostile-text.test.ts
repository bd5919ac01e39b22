/** Text that wants to be more than text. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Journal } from '../kit/journal.ts'
import { StagedDaemon, TOKEN } from '../kit/staged-daemon.ts'
import { IDS } from '../kit/stage.ts'
import { browserTest, copied, isLive, textOf, unfold } from '../kit/suite.ts'
import { stageTainted } from '../kit/tainted.ts'

const MARKUP = [
  '<img src=x onerror="alert(1)">',
  '<script>alert(2)</script>',
  '[click](javascript:alert(3)) [data](data:text/html,<script>alert(4)</script>)',
  '![](http://other.example/?q=secret)',
  '<svg onload=alert(5)><a xlink:href="javascript:alert(6)">x</a></svg>',
  '>'.repeat(5_000),
  'L'.repeat(1_000_000),
  '```js\nan unclosed fence <b>',
].join('\n\n')

const TERMINAL = [
  '\u001b]8;;http://other.example\u0007link\u001b]8;;\u0007\n',
  '\u001b]52;c;c2VjcmV0\u0007after\n',
  '\u001b[2J\u001b[1;1H',
  ...Array.from({ length: 500 }, (_, n) => `${n} %\r`),
  '\u0000\ufffd',
  '\u202egnp.exe',
  '\u001b[31mred\u001b[0m',
].join('')

const NAME = '<b>\u202etitle</b> "\'`\u0000'

function stage(staged: StagedDaemon): void {
  const journal = new Journal('s1', Date.now() - 5_000)
    .turn('t1', NAME, { model: NAME })
    .step()
    .say('lost <i>', 5)
    .retry('model_stream_interrupted', NAME, 5)
    .wait(6)
    .add('text-delta', { step: 1, attempt: 2, part: 'p2', text: MARKUP })
  journal
    .call('bash', { command: `echo ${NAME}` })
    .output(TERMINAL)
    .result('ok', '')
  journal
    .call('read', { path: `/tmp/${NAME}` })
    .wait(5)
    .result('ok', '<u>file</u>', null)
  const events = [...journal.step().say('still here', 5).end('still here', 1).events]
  staged.put(
    {
      id: 's1',
      title: NAME,
      state: 'idle',
      model: NAME,
      workspace: `/tmp/${NAME}`,
      createdAt: new Date().toISOString(),
      lastSeq: events.length,
      turn: {
        id: 't1',
        state: 'finished',
        prompt: NAME,
        steps: 2,
        attempts: 2,
        marks: '-x-',
        faultsSurvived: 1,
        unknownOutcomes: 0,
        startedAt: new Date().toISOString(),
        endedAt: new Date().toISOString(),
        fault: null,
        parked: null,
        retry: null,
      },
    },
    events,
  )
  staged.counts = { finished: 1 }
  staged.system = { tokenFile: "/tmp/it's a token", chaos: false, gateway: false }
}

browserTest(
  'markup, scripts, odd links, images and escapes are text; no request leaves, no dialog opens, the page answers',
  async ({ open }) => {
    await using staged = await StagedDaemon.start()
    stage(staged)
    const page = await open(staged.open('/s/s1'))
    await page.waitForSelector('.state-bar[data-state="finished"]')
    await unfold(page)
    await page.waitForSelector('.md p')
    const talk = await textOf(page, '.talk')
    for (const text of ['<script>alert(2)</script>', '<img src=x onerror="alert(1)">', 'still here'])
      assert.ok(talk.includes(text), text)
    const made = await page.evaluate(() => {
      const talkBox = document.querySelector('.talk')
      return {
        tags: [...new Set([...(talkBox?.querySelectorAll('*') ?? [])].map((element) => element.localName))].sort(),
        links: [...(talkBox?.querySelectorAll('a[target]') ?? [])].map((link) => [
          link.getAttribute('href'),
          link.getAttribute('rel'),
        ]),
        handlers: [...document.querySelectorAll('*')].filter((element) =>
          element.getAttributeNames().some((name) => name.startsWith('on')),
        ).length,
      }
    })
    for (const tag of ['img', 'script', 'svg', 'iframe', 'object', 'b', 'i', 'u'])
      assert.ok(!made.tags.includes(tag), tag)
    assert.deepEqual(made.links, [['http://other.example/?q=secret', 'noopener noreferrer']])
    assert.equal(made.handlers, 0)
    const output = await textOf(page, '.call pre.output')
    assert.ok(!output.includes('\u001b') && !output.includes('other.example'), 'escapes are gone')
    assert.match(output, /^link after .*red/) // what a carriage return overwrites would prove nothing
    assert.ok(!output.includes('c2VjcmV0'), 'nothing for the clipboard')
    await page.getByRole('button', { name: 'survival card' }).click()
  },
)

browserTest(
  'the same in a title, a path, a model’s name and an error: marked in list, header, tab, reports, copies and an opened export',
  async ({ open }) => {
    await using staged = await StagedDaemon.start()
    stage(staged)
    const page = await open(staged.open(), {
      permissions: ['clipboard-read', 'clipboard-write'],
      acceptDownloads: true,
    })
    await page.waitForSelector('[data-session="s1"]')
    assert.match(await textOf(page, '[data-session="s1"] .title'), /^<b>⟦U\+202E⟧title<\/b>/)
    await page.goto(`${staged.url}/#/s/s1`)
    await page.waitForSelector('.state-bar')
    assert.match(await textOf(page, 'h1'), /⟦U\+202E⟧/)
    await page.waitForFunction(() => document.title.includes('⟦U+202E⟧'))
    assert.match(await textOf(page, '.turn-title .chip'), /⟦U\+202E⟧/)

    // what an action reports: the daemon's sentence may quote anything
    staged.handle = ({ method }) =>
      method === 'POST' ? { status: 400, json: { category: 'invalid_request', error: `No: ${NAME}` } } : undefined
    await page.locator('#composer').fill('again')
    await page.locator('#composer').press('Enter')
    await page.locator('.composer .said, .said', { hasText: '<b>⟦U+202E⟧title</b>' }).first().waitFor()
    assert.doesNotMatch(await textOf(page, '#announcer'), /\u202e/)

    // copied: unchanged as raw text, and escaped in Markdown
    await page.evaluate(() => {
      location.hash = '#/s/s1?step=1&attempt=1'
    })
    assert.equal(await copied(page, 'copy raw error'), NAME)
    await page.getByText('✓ copied').waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'survival card' }).click()
    const card = await copied(page, 'copy as Markdown')
    assert.ok(card.startsWith(String.raw`**\<b\>⟦U+202E⟧title\</b\>`), card)

    // exported, and read from the file: the same marks, and still text
    const saving = page.waitForEvent('download')
    await page.getByRole('button', { name: 'export' }).click()
    await page.getByRole('button', { name: 'Everything' }).click()
    const file = {
      name: '\u202enosj.ndjson',
      mimeType: 'text/plain',
      buffer: readFileSync(await (await saving).path()),
    }
    await page.evaluate(() => {
      location.hash = '#/bundle'
    })
    await page.locator('input[type="file"]').setInputFiles(file)
    await page.locator('.bar', { hasText: '⟦U+202E⟧nosj.ndjson, read-only' }).waitFor()
    assert.match(await textOf(page, 'h1'), /^<b>⟦U\+202E⟧title<\/b>/)
    await unfold(page)
    assert.equal(await page.locator('.talk b, .talk i, .talk u, .talk img, .talk script').count(), 0)
  },
)

/** A screen, and what is there once it is whole. */
const SCREENS: readonly (readonly [string, string])[] = [
  ['/', '[data-session]'],
  ['/faults', '.group'],
  ['/faults/f1', '.occurrence'],
  ['/system', '[data-part^="MCP: browser"]'],
  ['/new', '#model'],
  ['/demo', '.injections li'],
  ['/gateway', '.injections li, ol li'],
  ...Object.values(IDS).map((id) => [`/s/${id}`, '.state-bar'] as const),
  [`/s/${IDS.retrying}?step=10&attempt=1`, '.inspector pre.raw'],
  [`/s/${IDS.approval}?step=1&call=c1`, '.inspector pre.raw'],
]

browserTest(
  'on every screen, no name and no sentence has a hidden character in it; only panes of text and what is typed do',
  async ({ open }) => {
    await using staged = await stageTainted()
    const page = await open(staged.open())
    await isLive(page)
    for (const [hash, whole] of SCREENS) {
      await page.evaluate((to) => {
        location.hash = to
      }, `#${hash}`)
      await page.locator(whole).first().waitFor()
      if (hash.startsWith('/s/')) await unfold(page)
      await page.waitForFunction(() => document.body.innerHTML.includes('⟦U+202E⟧')) // parts of a screen come one by one
      const hidden = await page.evaluate(() => {
        const panes = '.md, .prompt, .thinking .body, pre.output, .diff, datalist'
        const found: string[] = []
        for (const element of document.querySelectorAll('*')) {
          if (element.closest(panes) !== null) continue
          const own = [...element.childNodes].map((node) => (node.nodeType === 3 ? node.nodeValue : '')).join('')
          for (const text of [own, ...[...element.attributes].map(({ value }) => value), document.title])
            if (/[\u202e\u200b]/.test(text)) found.push(`${element.localName}.${element.className}: ${text}`)
        }
        return found
      })
      assert.deepEqual(hidden, [], hash)
    }
  },
)

browserTest('events with missing, extra or wrong fields cost one line each', async ({ open }) => {
  await using staged = await StagedDaemon.start()
  stage(staged)
  const page = await open(staged.open('/s/s1'))
  await page.waitForSelector('.state-bar[data-state="finished"]')
  staged.isWild = true
  const base = { sessionId: 's1', turnId: 't2', at: new Date().toISOString() }
  const n = staged.journals.get('s1')?.length ?? 0
  staged.push(
    's1',
    { ...base, seq: n + 1, type: 'turn-start', prompt: 'second' },
    { ...base, seq: n + 2, type: 'step-start', step: 1 },
    { ...base, seq: n + 3, type: 'text-delta', step: 'x', text: 7 },
    {
      ...base,
      seq: n + 4,
      type: 'retry',
      step: 1,
      attempt: 1,
      fault: 'no',
      action: 'retry',
      delayMs: 1,
      nextAt: 'never',
      max: 6,
    },
    { ...base, seq: n + 5, type: 'from-the-future', deep: { a: [1] } },
    { ...base, seq: n + 6, type: 'text-delta', step: 1, attempt: 1, part: 'p1', text: 'the rest lives' },
  )
  await page.getByText('the rest lives').waitFor()
  await page.waitForFunction(() => document.querySelectorAll('[data-note]').length === 3)
})

browserTest(
  'the token is nowhere a person or another program could read it, and a copied curl names the file instead',
  async ({ open }) => {
    await using staged = await StagedDaemon.start()
    stage(staged)
    staged.put(
      {
        id: 's2',
        title: 'Parked',
        state: 'parked',
        model: 'm',
        createdAt: new Date().toISOString(),
        lastSeq: 1,
        turn: null,
      },
      new Journal('s2', Date.now()).turn('t2', 'go').step().retry('model_overloaded', '503', 60_000).events,
    )
    const page = await open(staged.open('/s/s2'), { permissions: ['clipboard-read', 'clipboard-write'] })
    await page.waitForSelector('.state-bar')
    await isLive(page)
    await page.getByRole('button', { name: 'Why' }).click()
    const curl = await copied(page, 'copy curl')
    assert.ok(curl.includes(`'/tmp/it'\\''s a token'`), curl)
    const seen = await page.evaluate(() =>
      [
        document.documentElement.outerHTML,
        JSON.stringify(localStorage),
        document.cookie,
        location.href,
        document.title,
      ].join('\n'),
    )
    for (const place of [seen, curl]) assert.ok(!place.includes(TOKEN))
  },
)
