/** The pages in docs/faults match the fault table, in both directions, down to the example on each page. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import test from 'node:test'
import {
  EXIT_CODE_BY_CATEGORY,
  type Facts,
  FAULT_CATEGORIES,
  type FaultCategory,
  FAULTS,
  joinMessage,
  messageFor,
} from '@breakfall/faults'
import { diagnose } from '@breakfall/supervisor'

const DOCS = new URL('../docs/faults/', import.meta.url)
const page = (name: string): string => readFileSync(new URL(name, DOCS), 'utf8')
const HEADINGS = ['What it means', 'On the wire', 'What Breakfall does', 'What you can do']

test('every category has a page, and every page has a category', () => {
  const pages = readdirSync(DOCS).filter((name) => name !== 'README.md')
  assert.deepEqual(pages.toSorted(), FAULT_CATEGORIES.map((category) => `${category}.md`).toSorted())
})

for (const category of FAULT_CATEGORIES) {
  const row = FAULTS[category]

  test(`docs/faults/${category}.md has all headings in order, none of them empty`, () => {
    const text = page(`${category}.md`)
    assert.ok(text.startsWith(`# ${category}\n`))
    assert.deepEqual(
      Array.from(text.matchAll(/^## (.+)$/gm), ([, heading]) => heading),
      HEADINGS,
    )
    for (const heading of HEADINGS) assert.ok(section(text, heading).length > 10, heading)
    const facts = `Status ${row.http}, exit code ${EXIT_CODE_BY_CATEGORY[category]}, class \`${row.class}\`, next \`${row.next}\`.`
    assert.ok(text.includes(`${row.title}. ${facts}`), 'the line under the title matches the row of the table')
  })

  test(`docs/faults/${category}.md shows an example that the code would produce`, () => {
    const { example, facts } = exampleOf(section(page(`${category}.md`), 'On the wire'))
    const message = messageFor(category, facts)
    const sentence = joinMessage(message)
    const { error, sideEffects, diagnostics, errorRaw, at } = example
    assert.deepEqual(pick(example, ['category', 'class', 'boundary', 'next']), {
      category,
      class: row.class,
      boundary: row.boundary,
      next: row.next,
    })
    assert.equal(error, sentence)
    const isOne = message.action === undefined && message.advice === undefined
    assert.deepEqual(example['message'], isOne ? undefined : JSON.parse(JSON.stringify(message)))
    assert.ok(typeof errorRaw === 'string' && errorRaw !== '')
    assert.ok(typeof sideEffects === 'string' && Array.isArray(diagnostics) && typeof at === 'string')
    if (example['type'] === 'turn-error') assert.equal(typeof example['turnId'], 'string')
    else if (example['type'] !== undefined)
      assert.deepEqual(pick(example, ['type', 'title', 'status', 'detail']), {
        type: `urn:breakfall:fault:${category}`,
        title: row.title,
        status: row.http,
        detail: sentence,
      })
  })

  test(`docs/faults/${category}.md shows the diagnostics that its evidence produces`, () => {
    const { example } = exampleOf(section(page(`${category}.md`), 'On the wire'))
    const shown = example['diagnostics'] as readonly { evidence: readonly string[] }[]
    for (const diagnostic of shown) assert.deepEqual([diagnostic], diagnose(diagnostic.evidence.join('\n')))
  })

  test(`docs/faults/${category}.md links only to pages that exist`, () => {
    for (const [, name] of page(`${category}.md`).matchAll(/\]\(([a-z_]+)\.md\)/g)) {
      assert.ok(FAULT_CATEGORIES.includes(name as FaultCategory), name)
    }
  })
}

test('no two pages share a paragraph', () => {
  const seen = new Map<string, string>()
  for (const category of FAULT_CATEGORIES) {
    for (const heading of ['What it means', 'What Breakfall does', 'What you can do']) {
      const text = section(page(`${category}.md`), heading)
      assert.equal(seen.get(text), undefined, `${category}: ${heading}`)
      seen.set(text, category)
    }
  }
})

test('the index lists every category once, with the values of the table', () => {
  const rows = Array.from(page('README.md').matchAll(/^\| \[.+$/gm), ([line]) => line)
  const expected = FAULT_CATEGORIES.map((category) => {
    const { title, class: faultClass, next, http } = FAULTS[category]
    const link = `[${category}](${category}.md)`
    return `| ${[link, title, faultClass, next, http, EXIT_CODE_BY_CATEGORY[category]].join(' | ')} |`
  })
  assert.deepEqual(rows.toSorted(), expected.toSorted())
})

function section(text: string, heading: string): string {
  const [, rest = ''] = text.split(`\n## ${heading}\n`)
  return rest.split('\n## ')[0]?.trim() ?? ''
}

/** The JSON on the page, and the facts behind its message, from the comment above it. */
function exampleOf(text: string): { example: Record<string, unknown>; facts: Facts } {
  const facts = /<!-- facts: (.+) -->/.exec(text)?.[1]
  const json = /```json\n([\s\S]+?)\n```/.exec(text)?.[1]
  assert.ok(facts !== undefined && json !== undefined, 'a comment with the facts, then a JSON block')
  return { example: JSON.parse(json) as Record<string, unknown>, facts: JSON.parse(facts) as Facts }
}

const pick = (value: Record<string, unknown>, keys: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(keys.map((key) => [key, value[key]]))
