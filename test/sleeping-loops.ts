/**
 * Finds loops that sleep: a `for`, `while` or `do` whose body awaits a timer, directly or through a function of the same
 * file, and a function that calls itself from a timer. Textual: it reads brackets and names, not types.
 */
import type { Source } from './sources.ts'

/** Lines, as `path:line`. */
export function sleepingLoops({ path, code: written, text }: Source): readonly string[] {
  const code = written.replace(/(?:[\w#]+\.)*#?clock\.(after|every|sleep)\(/g, (_, name) =>
    name === 'sleep' ? 'sleep(' : 'setTimeout(',
  )
  const functions = functionsOf(code)
  const sleepers = sleepingNames(functions, timerNames(text))
  const callsSleeper = calling(sleepers)
  const loops = [...code.matchAll(/\b(?:for|while)\b(?:\s+await)?\s*\(|\bdo\s*\{/g)]
    .filter(({ index }) => {
      const loop = loopAt(code, index)
      return callsSleeper.test(loop) || AWAITED_TIMER.test(loop)
    })
    .map(({ index }) => index)
  const recursive = functions
    .filter(({ name, body }) => calling(timerNames(text)).test(body) && calling([name]).test(body))
    .map(({ index }) => index)
  const lines = [...loops, ...recursive].map((index) => code.slice(0, index).split('\n').length)
  return [...new Set(lines)].toSorted((a, b) => a - b).map((line) => `${path}:${line}`)
}

// ---- details, in the order they are used above ----

const AWAITED_TIMER = /\bawait new Promise\b[^;]*?\bsetTimeout\(/

type Named = { readonly name: string; readonly index: number; readonly body: string }

/** Functions, methods and arrow functions with a name. */
function functionsOf(code: string): readonly Named[] {
  const heads = [
    /\bfunction\s*\*?\s*(\w+)\s*(?:<[^(]*>)?\(/g,
    /^[ \t]+(?:(?:private|public|static|async|override|\*)\s*)*(#?\w+)\s*(?:<[^(\n]*>)?\(/gm,
    /\bconst\s+(\w+)\s*=\s*(?:async\s*)?(?:<[^(]*>)?\(/g,
  ]
  return heads.flatMap((head) =>
    [...code.matchAll(head)].flatMap((match) => {
      const name = match[1] ?? ''
      if (KEYWORDS.has(name)) return []
      const open = match.index + match[0].length - 1
      const body = bodyAfter(code, closing(code, open))
      return body === undefined ? [] : [{ name, index: match.index, body }]
    }),
  )
}

const KEYWORDS = new Set([
  'if',
  'for',
  'while',
  'switch',
  'catch',
  'return',
  'await',
  'function',
  'super',
  'do',
  'else',
])

/** What follows the parameters, if that is a body: a block, or the expression of an arrow function. */
function bodyAfter(code: string, end: number): string | undefined {
  const rest = code.slice(end + 1)
  const head = /^\s*(?::[^={;]*)?(=>)?\s*(\{)?/.exec(rest)
  if (head === null || (head[1] === undefined && head[2] === undefined)) return undefined
  const from = end + 1 + head[0].length
  if (head[2] !== undefined) return code.slice(from, closing(code, from - 1))
  return statementAt(code, from)
}

/** Up to the line that is not indented deeper than its first line. */
function statementAt(code: string, from: number): string {
  const lineStart = code.lastIndexOf('\n', from) + 1
  const indent = /^ */.exec(code.slice(lineStart))?.[0].length ?? 0
  const [first = '', ...more] = code.slice(from).split('\n')
  const end = more.findIndex((line) => !line.startsWith(' '.repeat(indent + 1)))
  return [first, ...(end === -1 ? more : more.slice(0, end))].join('\n')
}

/** Names under which this file knows a timer. */
function timerNames(text: string): readonly string[] {
  const aliases = [...text.matchAll(/\bsetTimeout as (\w+)/g)].map(([, alias]) => alias ?? '')
  return ['setTimeout', 'sleep', 'pause', 'delay', ...aliases]
}

function sleepingNames(functions: readonly Named[], timers: readonly string[]): readonly string[] {
  const names = new Set(timers)
  for (let size = 0; size !== names.size;) {
    size = names.size
    const wakes = calling([...names], 'await|return|=>|new Promise[\\s\\S]*?')
    for (const { name, body } of functions) if (wakes.test(`=> ${body}`)) names.add(name)
  }
  names.delete('setTimeout') // a timer that no one awaits is a limit, not a wait
  return [...names]
}

const calling = (names: readonly string[], before = ''): RegExp =>
  new RegExp(
    `${before === '' ? '' : `(?:${before})\\s*(?:\\(?)(?:this\\.|\\w+\\.)?`}(?<![\\w.])(?:this\\.)?(?:${names.map(escaped).join('|')})\\s*\\(`,
  )

const escaped = (name: string): string => name.replaceAll('$', '\\$')

/** The head and the body of a loop. */
function loopAt(code: string, index: number): string {
  const open = code.slice(index).search(/[({]/) + index
  const end = closing(code, open)
  if (code[open] === '{') return code.slice(index, end)
  const block = /^\s*\{/.exec(code.slice(end + 1))
  if (block !== null) return code.slice(index, closing(code, end + block[0].length))
  return code.slice(index, code.indexOf('\n', end))
}

/** Where the bracket that opens here closes. */
function closing(code: string, open: number): number {
  let depth = 0
  for (let index = open; index < code.length; index += 1) {
    const char = code[index] ?? ''
    if ('([{'.includes(char)) depth += 1
    if (')]}'.includes(char)) depth -= 1
    if (depth === 0) return index
  }
  return code.length
}
