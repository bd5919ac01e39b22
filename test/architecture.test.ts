/** ARCHITECTURE.md names files and what is in them; both exist. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from './sources.ts'

const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')

/** A path in backticks, perhaps followed by the name of something in that file: `path` · `name`. */
const NAMED = /`((?:packages|test|e2e|sim|bench|docs|fixtures|scripts)\/[^`\s]*)`(?: · `(\w+)`)?/g

const named = Array.from(page.matchAll(NAMED), ([, path = '', name]) => ({ path, name }))

test('every path in ARCHITECTURE.md exists', () => {
  assert.ok(named.length > 40)
  assert.deepEqual(
    named.map(({ path }) => path).filter((path) => !existsSync(join(root, path))),
    [],
  )
})

test('every name beside a path in ARCHITECTURE.md is in that file', () => {
  const missing = named.filter(({ path, name }) => {
    if (name === undefined || !existsSync(join(root, path))) return false
    return !new RegExp(`\\b${name}\\b`).test(readFileSync(join(root, path), 'utf8'))
  })
  assert.deepEqual(missing, [])
})
