/** `npm run faults`: writes what docs/faults says from the fault table, and a page to fill in for each category without one. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { rerunUnder, root, setUp } from './setup.mjs'

rerunUnder(setUp({ dev: true }), import.meta.url)
const { freshIndex, freshPage, newPage } = await import('../test/fault-pages.ts')
const { FAULT_CATEGORIES } = await import('@breakfall/faults')

const docs = join(root, 'docs', 'faults')
const index = join(docs, 'README.md')
writeFileSync(index, freshIndex(readFileSync(index, 'utf8')))
for (const category of FAULT_CATEGORIES) {
  const file = join(docs, `${category}.md`)
  const page = existsSync(file) ? freshPage(category, readFileSync(file, 'utf8')) : newPage(category)
  writeFileSync(file, page)
}
