/** docs/proofs.md names tests; each of them is there, once a promise. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { root, sources } from './sources.ts'

test('every test that docs/proofs.md names exists', () => {
  const page = readFileSync(join(root, 'docs/proofs.md'), 'utf8')
  const named = Array.from(page.matchAll(/^\|.*\| `(.+)` \|$/gm), ([, name]) => name as string)
  const rows = Array.from(page.matchAll(/^\| (?!promise)[^-].*\|$/gm))
  assert.equal(named.length, rows.length, 'every promise names its test')
  assert.ok(named.length > 30)
  const text = sources(
    'packages/*/test/**/*.test.ts',
    'packages/*/test/conformance/*.ts',
    'e2e/**/*.test.ts',
    'test/*.test.ts',
  )
    .map((source) => source.text)
    .join('\n')
  const isThere = (name: string): boolean =>
    [`'`, '"', '`'].some(
      (quote) => text.includes(`(${quote}${name}${quote}`) || text.includes(`  ${quote}${name}${quote}`),
    )
  assert.deepEqual(
    named.filter((name) => !isThere(name)),
    [],
  )
})
