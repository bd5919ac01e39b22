/** Globs: what they match, compared with Node's globs for plain patterns, and that no pattern is slow. */
import assert from 'node:assert/strict'
import { matchesGlob } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseGlob } from '../src/files/glob.ts'

test('stars, question marks, sets, depth and alternatives match as documented', () => {
  const rows: readonly [string, readonly string[], readonly string[]][] = [
    ['*', ['a', 'b.ts'], ['.hidden', 'a/b']],
    ['*.ts', ['a.ts', '.ts'.slice(1) + '.ts'], ['a.js', 'src/a.ts', '.ts']],
    ['src/**/*.ts', ['src/a.ts', 'src/x/y/a.ts'], ['a.ts', 'src/.git/a.ts', 'lib/a.ts']],
    ['**', ['a', 'a/b'], ['.a', 'a/.b']],
    ['**/x', ['x', 'a/x', 'a/b/x'], ['a', 'x/a']],
    ['{a,b}/*.{js,ts}', ['a/x.js', 'b/x.ts'], ['c/x.js', 'a/x.css']],
    ['file-[0-9][!a].txt', ['file-1b.txt'], ['file-1a.txt', 'file-xb.txt']],
    ['?.md', ['é.md'], ['.md', 'ab.md']],
    ['.env*', ['.env', '.env.local'], ['env']],
    ['(a+)+$', ['(a+)+$'], ['aaa']],
  ]
  for (const [pattern, yes, no] of rows) {
    const glob = parseGlob(pattern)
    for (const path of yes) assert.ok(glob.matches(path), `${pattern} should match ${path}`)
    for (const path of no) assert.ok(!glob.matches(path), `${pattern} should not match ${path}`)
  }
})

test('for stars and letters it agrees with Node', () => {
  const letters = fc.constantFrom('a', 'b', '*', '?', '/')
  const pattern = fc.string({ unit: letters, minLength: 1, maxLength: 8 }).filter(isPlain)
  const path = fc.string({ unit: fc.constantFrom('a', 'b', '/'), minLength: 1, maxLength: 8 }).filter(isPlain)
  fc.assert(
    fc.property(pattern, path, (glob, name) => {
      assert.equal(parseGlob(glob).matches(name), matchesGlob(name, glob), `${glob} on ${name}`)
    }),
    { numRuns: 2_000 },
  )
})

test('only the folder before the first wildcard is searched, and not deeper than needed', () => {
  assert.deepEqual(parseGlob('src/api/*.ts').base, ['src', 'api'])
  assert.deepEqual(parseGlob('src/api').base, ['src'])
  assert.deepEqual(parseGlob('{a,b}/c').base, [])
  assert.equal(parseGlob('a/*').mayHold(2), false)
  assert.equal(parseGlob('a/**').mayHold(50), true)
})

test('patterns that are built to be slow are matched or refused quickly', () => {
  const name = 'a'.repeat(250)
  for (const pattern of [`${'*a'.repeat(400)}b`, `${'a*'.repeat(400)}b`, `${'**/'.repeat(300)}b`, '[a-'.repeat(300)])
    assert.equal(parseGlob(pattern).matches(name), false)
  assert.equal(parseGlob(`${'**/'.repeat(300)}b`).matches(`${'a/'.repeat(100)}a`), false)
  for (const pattern of ['{a,b}'.repeat(30), 'x'.repeat(1_001), ''])
    assert.throws(() => parseGlob(pattern), { category: 'invalid_request' })
})

/** `**` next to letters, and empty parts, mean different things in different programs. */
const isPlain = (text: string): boolean => !text.includes('**') && !text.split('/').includes('')
