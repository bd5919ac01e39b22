/** Every test that docs/proofs.md quotes exists, and every promise quotes a different one. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { testNamesIn, TESTS } from './test-names.ts'
import { root, sources } from './sources.ts'

/** The rows of the page's tables: a promise, and the quoted name of a test. */
function promisesIn(page: string): readonly { promise: string; quoted: string | undefined }[] {
  return Array.from(page.matchAll(/^\| (?!promise |-)(.+?) \|(.*)\|$/gm), ([, promise = '', rest = '']) => ({
    promise,
    quoted: /^ `(.+)` $/.exec(rest)?.[1],
  }))
}

const promises = promisesIn(readFileSync(join(root, 'docs/proofs.md'), 'utf8'))

test('every promise in docs/proofs.md quotes a test that exists', () => {
  assert.ok(promises.length >= 20, `${promises.length} promises found`)
  const names = new Set(sources(...TESTS).flatMap(({ text }) => testNamesIn(text)))
  assert.deepEqual(
    promises.filter(({ quoted }) => quoted === undefined || !names.has(quoted)),
    [],
  )
})

test('no two promises in docs/proofs.md quote the same test', () => {
  const quoted = promises.map((row) => row.quoted)
  assert.deepEqual(
    quoted.filter((name, index) => quoted.indexOf(name) !== index),
    [],
  )
})

test('the check finds names in every form that the tests use', () => {
  assert.deepEqual(
    testNamesIn(
      "test('a', () => {\n  await t.test(`b ${c}`, …)\n})\ntest(\n  'd',\n  LIMIT,\nbrowserTest('e',\nscenario('f',",
    ),
    ['a', 'b ${c}', 'd', 'e', 'f'],
  )
  assert.deepEqual(promisesIn('| promise | test |\n|---|---|\n| A. | `b` |\n| C. | none |'), [
    { promise: 'A.', quoted: 'b' },
    { promise: 'C.', quoted: undefined },
  ])
})
