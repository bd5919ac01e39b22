/**
 * Globs over paths, matched without exponential backtracking: `*`, `?`, `[a-z]`, `**` between slashes and `{a,b}`. A caller's
 * pattern can use neither unbounded time nor unbounded memory.
 *
 * I1  Matching a name costs at most its length times the pattern's: only the last star backtracks, and only forward.
 * I2  A name that starts with a dot needs a pattern that starts with a dot, as in a shell.
 */
import { invalidRequest } from '@breakfall/wire/internal'

export type Glob = {
  /** The folder of every match: the parts before the first wildcard. */
  readonly base: readonly string[]
  matches(path: string): boolean
  /** Whether something below a folder of this depth can match. */
  mayHold(depth: number): boolean
}

const PATTERN_CHARS_MAX = 1_000
const ALTERNATIVES_MAX = 64

export function parseGlob(pattern: string): Glob {
  if (pattern === '' || pattern.length > PATTERN_CHARS_MAX)
    throw refused(`a pattern of 1 to ${PATTERN_CHARS_MAX} characters`, `${pattern.length} characters`)
  const globs = alternatives(pattern).map((one) =>
    one
      .split('/')
      .filter((part) => part !== '' && part !== '.')
      .map(parsePart),
  )
  const [first = []] = globs
  const wild = first.findIndex((part) => part === ANY_DEPTH || part.some((token) => token.kind !== 'text'))
  const fixed = globs.length > 1 ? [] : first.slice(0, wild === -1 ? -1 : wild)
  return {
    base: fixed.map(literalText),
    matches: (path) => {
      const names = path.split('/')
      return globs.some((parts) => matchesParts(parts, names))
    },
    mayHold: (depth) => globs.some((parts) => parts.includes(ANY_DEPTH) || parts.length > depth),
  }
}

// ---- details, in the order they are used above ----

type Token =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'one' }
  | { readonly kind: 'star' }
  | { readonly kind: 'set'; readonly not: boolean; readonly ranges: readonly (readonly [string, string])[] }
type Part = readonly Token[]

const ANY_DEPTH = '**'

const refused = (expected: string, got: string): Error => invalidRequest([{ field: 'glob', expected, got }])

/** The text of a part without wildcards. */
const literalText = (part: Part | typeof ANY_DEPTH): string =>
  part === ANY_DEPTH ? part : part.map((token) => (token.kind === 'text' ? token.text : '')).join('')

/** Expands `{a,b}`, nested ones too. */
function alternatives(pattern: string): readonly string[] {
  const done: string[] = []
  const open = [pattern]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const found = /\{([^{}]*,[^{}]*)\}/.exec(next)
    if (found === null) done.push(next)
    else
      for (const choice of (found[1] ?? '').split(','))
        open.push(next.slice(0, found.index) + choice + next.slice(found.index + found[0].length))
    if (done.length + open.length > ALTERNATIVES_MAX)
      throw refused(`a pattern with at most ${ALTERNATIVES_MAX} alternatives`, 'more')
  }
  return done
}

function parsePart(text: string): Part | typeof ANY_DEPTH {
  if (text === ANY_DEPTH) return ANY_DEPTH
  const tokens: Token[] = []
  for (let at = 0; at < text.length;) {
    const letter = String.fromCodePoint(text.codePointAt(at) ?? 0)
    const set = letter === '[' ? /^\[([!^]?)(\]?[^\]]*)\]/u.exec(text.slice(at)) : null
    if (set !== null) {
      tokens.push({ kind: 'set', not: set[1] !== '', ranges: rangesOf(set[2] ?? '') })
      at += set[0].length
      continue
    }
    if (letter === '*') {
      if (tokens.at(-1)?.kind !== 'star') tokens.push({ kind: 'star' })
    } else tokens.push(letter === '?' ? { kind: 'one' } : { kind: 'text', text: letter })
    at += letter.length
  }
  return tokens
}

function rangesOf(text: string): readonly (readonly [string, string])[] {
  const letters = Array.from(text)
  const ranges: (readonly [string, string])[] = []
  for (let i = 0; i < letters.length; i += 1) {
    const from = letters[i] ?? ''
    const to = letters[i + 1] === '-' ? letters[i + 2] : undefined
    ranges.push([from, to ?? from])
    if (to !== undefined) i += 2
  }
  return ranges
}

/** After each part of the pattern, keeps how many names it can have matched so far. */
function matchesParts(parts: readonly (Part | typeof ANY_DEPTH)[], names: readonly string[]): boolean {
  let reached = new Set([0])
  for (const [i, part] of parts.entries()) {
    const next = new Set<number>()
    for (const used of reached) {
      if (part !== ANY_DEPTH) {
        const name = names[used]
        if (name !== undefined && matchesName(part, name)) next.add(used + 1)
        continue
      }
      for (let to = used; to <= names.length && !next.has(to); to += 1) {
        // At the end of a pattern it matches at least one name, not the folder itself.
        if (to > used || i < parts.length - 1) next.add(to)
        if (names[to]?.startsWith('.') === true) break // I2: a dot needs a dot
      }
    }
    if (next.size === 0) return false
    reached = next
  }
  return reached.has(names.length)
}

function matchesName(part: Part, name: string): boolean {
  const first = part[0]
  if (name.startsWith('.') && !(first?.kind === 'text' && first.text === '.')) return false // I2: a dot needs a dot
  const letters = Array.from(name)
  let token = 0
  let at = 0
  let star = -1
  let from = 0
  while (at < letters.length) {
    const now = part[token]
    if (now?.kind === 'star') {
      star = token
      from = at
      token += 1
    } else if (now !== undefined && matchesLetter(now, letters[at] ?? '')) {
      token += 1
      at += 1
    } else if (star === -1) return false
    else {
      token = star + 1 // I1: the last star matches one more character; earlier ones never need to
      from += 1
      at = from
    }
  }
  while (part[token]?.kind === 'star') token += 1
  return token === part.length
}

function matchesLetter(token: Token, letter: string): boolean {
  if (token.kind === 'text') return token.text === letter
  if (token.kind === 'set') return token.ranges.some(([from, to]) => from <= letter && letter <= to) !== token.not
  return token.kind === 'one'
}
