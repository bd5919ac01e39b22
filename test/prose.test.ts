/**
 * Prose in plain English: documents, messages and comments use the terms of the field, not a translation of them.
 * A list of phrases cannot judge style, but it notices when old habits return. One slip per thousand words is allowed.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sources } from './sources.ts'

const PER_THOUSAND_MAX = 1
const SHORTEST_STRING = 12 // shorter string literals are names and values, not prose

/** A phrase to avoid, and what to write instead. */
const AVOIDED: readonly (readonly [RegExp, string])[] = [
  [/\b(?:go|goes|going|gone|went) on\b/gi, 'continue, resume, keep running'],
  [/\b(?:is|are|was|were|be|been) told\b|\btold (?:as|of)\b/gi, 'report, say, show'],
  [/\bmend(?:s|ed|ing)?\b/gi, 'fix, repair'],
  [/\bnobody\b|\bsomebody\b/gi, 'no one; a user; or name who'],
  [/\bfinds? out\b|\bfound out\b/gi, 'detect, learn'],
  [/\bof (?:its|their|our|your) own\b(?! [a-z])/gi, 'its own X, a separate X'],
  [/\bwhere (?:nothing|nobody|somebody|everything|both) /gi, 'if, when'],
  [/\bwhoever\b/gi, 'anyone who, the caller'],
  [/\bso that\b/gi, 'so; or two sentences'],
  [/\b(?:anew|hitherto|thereof|therein|thereby|whereby|for ever)\b/gi, 'again; forever; nothing'],
  [/\b(?:take|takes|took|taken|taking) up\b/gi, 'resume, adopt'],
  [/\bstands? (?:beside|elsewhere|twice|there)\b/gi, 'is in, appears in'],
  [/\bbegun\b|\bbegins? with\b/gi, 'started, starts with'],
  [/\bby itself\b/gi, 'automatically, on its own'],
  [/\bnot a (?:byte|word)\b/gi, 'no bytes, nothing'],
  [/\ball that (?!is\b)/gi, 'everything that, what'],
  [/\btroubles?\b/gi, 'problem, error'],
  [/\blast words\b|\bin words\b/gi, 'final message; as a sentence'],
  [/\btries (?:last|are left|are spent)\b|\bspent tries\b/gi, 'attempts left'],
  [/\bmay not be used so\b|\bis so instead\b/gi, 'cannot; the outcome'],
]

/** The prose of a file: all of a document; the comments and the longer string literals of code. */
function proseOf(path: string, text: string): readonly { line: number; prose: string }[] {
  return text.split('\n').flatMap((whole, index) => {
    const line = index + 1
    if (path.endsWith('.md')) return [{ line, prose: whole }]
    const strings = whole.match(/'[^']*'|"[^"]*"|`[^`]*/g) ?? []
    const comment = /(?:\/\/|\/\*\*?|^\s*\*)\s?(.*)/.exec(whole)?.[1]
    const parts = strings.filter((one) => one.length >= SHORTEST_STRING)
    return [...parts, ...(comment === undefined ? [] : [comment])].map((prose) => ({ line, prose }))
  })
}

function slipsIn(files: readonly { path: string; text: string }[]): { words: number; slips: readonly string[] } {
  let words = 0
  const slips: string[] = []
  for (const { path, text } of files)
    for (const { line, prose } of proseOf(path, text)) {
      words += prose.split(/\s+/).filter((word) => word !== '').length
      for (const [phrase, instead] of AVOIDED)
        for (const [found] of prose.matchAll(phrase)) slips.push(`${path}:${line}: "${found}"; better: ${instead}`)
    }
  return { words, slips }
}

const AREAS: Readonly<Record<string, readonly string[]>> = {
  'the documents': ['*.md', 'docs/**/*.md', 'packages/*/*.md', 'bench/*.md'],
  'the packages': ['packages/*/src/**/*.{ts,tsx}', 'scripts/*.mjs'],
  'the tests and benchmarks': ['packages/*/test/**/*.ts', 'e2e/**/*.ts', 'sim/**/*.ts', 'bench/**/*.ts'],
}

for (const [area, patterns] of Object.entries(AREAS))
  test(`${area} are in plain English`, () => {
    const { words, slips } = slipsIn(sources(...patterns))
    assert.ok(words > 1_000, 'there is prose to read')
    const allowed = (words / 1_000) * PER_THOUSAND_MAX
    assert.ok(slips.length <= allowed, `${slips.length} slips in ${words} words:\n${slips.join('\n')}`)
  })

test('the check reads documents, comments and messages, and leaves code alone', () => {
  const slips = (path: string, text: string): number => slipsIn([{ path, text }]).slips.length
  assert.equal(slips('a.md', 'The turn goes on by itself.'), 2)
  assert.equal(slips('a.ts', "throw new Error('it was told to go on')"), 2)
  assert.equal(slips('a.ts', '// Nobody mends it.'), 2)
  assert.equal(slips('a.ts', 'const begun = goes.on(nobody)'), 0)
  assert.equal(slips('a.md', 'The turn resumes automatically.'), 0)
})
