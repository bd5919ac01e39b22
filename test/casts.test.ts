/** Casts hide mistakes from the compiler. Double casts are forbidden everywhere; plain ones may only become fewer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Source, sources } from './sources.ts'

/** Lower it when a cast goes. Never raise it. */
const CASTS_MAX = 83

const CAST = /\bas (?!const\b)(?=[A-Za-z({['"`])/g

function castsIn({ path, code }: Source): readonly string[] {
  return code.split('\n').flatMap((line, index) => {
    if (/^\s*(?:import|export)\b|^\s*(?:type )?\w+ as \w+,?$/.test(line)) return [] // renames
    return Array.from(line.matchAll(CAST), () => `${path}:${index + 1}: ${line.trim()}`)
  })
}

test('no double cast and no cast to never, in code and tests', () => {
  const files = sources(
    'packages/*/{src,test}/**/*.{ts,tsx}',
    'e2e/**/*.ts',
    'bench/**/*.ts',
    'test/**/*.ts',
    'sim/**/*.ts',
  )
  const found = files.flatMap(({ path, code }) =>
    code
      .split('\n')
      .flatMap((line, index) =>
        /\bas (?:unknown as|never)\b/.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [],
      ),
  )
  assert.deepEqual(found, [])
})

test(`the packages have at most ${CASTS_MAX} casts`, () => {
  const found = sources('packages/*/src/**/*.{ts,tsx}').flatMap(castsIn)
  assert.ok(found.length <= CASTS_MAX, `${found.length} casts:\n${found.join('\n')}`)
})

test('the check counts casts, and neither `as const` nor renames', () => {
  const count = (code: string): number => castsIn({ path: 'x', text: code, code }).length
  assert.equal(count('const a = b as C; const d = { e: f as { g: 1 } }'), 2)
  assert.equal(count("import { a as b } from 'c'\nconst d = [1] as const"), 0)
  assert.equal(count('import {\n  a as b,\n  type C as D,\n} from "c"'), 0)
})
