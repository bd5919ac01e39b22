/** `node scripts/proofs.mjs [PART…]`: prints the name of every test, by file. With arguments, only files or names that contain one. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { rerunUnder, root, setUp } from './setup.mjs'

rerunUnder(setUp({ dev: true }), import.meta.url)
const { testNamesIn, TESTS } = await import('../test/test-names.ts')

process.stdout.on('error', () => process.exit()) // a reader such as `head` has seen enough
const wanted = process.argv.slice(2)
const matches = (text) => wanted.length === 0 || wanted.some((part) => text.includes(part))
let count = 0
for (const file of TESTS.flatMap((pattern) => globSync(pattern, { cwd: root })).toSorted((a, b) =>
  a.localeCompare(b),
)) {
  const names = testNamesIn(readFileSync(join(root, file), 'utf8')).filter((name) => matches(file) || matches(name))
  if (names.length === 0) continue
  count += names.length
  process.stdout.write(`${file}\n${names.map((name) => `  ${name}\n`).join('')}\n`)
}
process.stdout.write(`${count} tests\n`)
