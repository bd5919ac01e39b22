/** The pages in docs/faults match the fault table, in both directions, down to the example on each page: `npm run faults` writes them. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import test from 'node:test'
import { FAULT_CATEGORIES, type FaultCategory } from '@breakfall/faults'
import { freshIndex, freshPage, HEADINGS } from './fault-pages.ts'

const DOCS = new URL('../docs/faults/', import.meta.url)
const page = (name: string): string => readFileSync(new URL(name, DOCS), 'utf8')

test('every category has a page, and every page has a category', () => {
  const pages = readdirSync(DOCS).filter((name) => name !== 'README.md')
  assert.deepEqual(pages.toSorted(), FAULT_CATEGORIES.map((category) => `${category}.md`).toSorted())
})

for (const category of FAULT_CATEGORIES) {
  test(`docs/faults/${category}.md has all headings in order, none of them empty`, () => {
    const text = page(`${category}.md`)
    assert.deepEqual(
      Array.from(text.matchAll(/^## (.+)$/gm), ([, heading]) => heading),
      HEADINGS,
    )
    for (const heading of HEADINGS) assert.ok(section(text, heading).length > 10, heading)
  })

  test(`docs/faults/${category}.md shows what the table says and what the code would produce`, () => {
    const text = page(`${category}.md`)
    assert.equal(text, freshPage(category, text), 'run: npm run faults')
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
  assert.equal(page('README.md'), freshIndex(page('README.md')), 'run: npm run faults')
})

function section(text: string, heading: string): string {
  const [, rest = ''] = text.split(`\n## ${heading}\n`)
  return rest.split('\n## ')[0]?.trim() ?? ''
}
