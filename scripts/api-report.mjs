/**
 * What a package exports, as text: each name with its declaration as tsc emits it, without comments, sorted. Read from `.d.ts` files
 * by their layout, because this version of TypeScript has no interface for programs: a statement begins in the first column.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The report of one package. `types` has its `.d.ts` files, laid out like `packages/`. */
export function apiReport(name, manifest, types) {
  const known = new Map()
  const entries = Object.entries(manifest.exports).map(([path, target]) => {
    const exported = [...exportsOf(join(types, name, target).replace(/\.ts$/, '.d.ts'))]
    const sorted = exported.toSorted(([a], [b]) => (a < b ? -1 : 1))
    const same = sorted.filter(([one, text]) => known.get(one) === text).map(([one]) => one)
    const others = sorted.filter(([one]) => !same.includes(one))
    for (const [one, text] of others) known.set(one, text)
    const also = same.length === 0 ? [] : [`Also, as above: ${same.join(', ')}`]
    return [`## ${manifest.name}${path.slice(1)}`, ...others.map(([, text]) => short(text)), ...also].join('\n\n')
  })
  return `${[`# What ${manifest.name} exports. \`npm run api\` writes this file.`, ...entries].join('\n\n')}\n`
}

/** The names in a report. */
export const namesIn = (report) => [
  ...new Set(
    Array.from(
      report.matchAll(/^(?:abstract class|class|const|function|type|interface|from) (?:"[^"]+": )?(\w+)/gm),
      ([, name]) => name,
    ),
  ),
]

/** Name and declaration of everything that a file exports. */
export function exportsOf(file) {
  const out = new Map()
  const statements = statementsOf(readFileSync(file, 'utf8'))
  const local = new Map(statements.flatMap((text) => (nameOf(text) === undefined ? [] : [[nameOf(text), bare(text)]])))
  for (const text of statements) {
    const list = /^export (?:type )?\{([^}]*)\}(?: from ["']([^"']+)["'])?/.exec(text)
    const all = /^export (?:type )?\* from ["']([^"']+)["']/.exec(text)
    if (all !== null) {
      const isTypes = text.startsWith('export type')
      for (const [name, declared] of exportsOf(fileOf(file, all[1])))
        if (!isTypes || /^(?:type|interface) /.test(declared)) out.set(name, declared)
    } else if (list !== null) {
      for (const [name, as] of namesInList(list[1])) out.set(as, declarationOf(file, list[2], name, as, local))
    } else if (text.startsWith('export ') && nameOf(text) !== undefined) out.set(nameOf(text), bare(text))
  }
  return out
}

// ---- details, in the order they are used above ----

const SCHEMA_LINES_MAX = 12

/** A long zod schema by its hash: the OpenAPI document shows its fields, and here only a change matters. */
function short(text) {
  if (!/^const [^\n]*(?:z\.|\{$)/.test(text) || !/\bz\./.test(text) || text.split('\n').length <= SCHEMA_LINES_MAX)
    return text
  return `${text.split('\n', 1)[0]} … // ${createHash('sha256').update(text).digest('hex').slice(0, 12)}`
}

const DECLARATION = /^(?:export )?(?:declare )?(?:abstract )?(?:const|let|function|class|type|interface) (\w+)/

const nameOf = (text) => DECLARATION.exec(text)?.[1]
const bare = (text) => text.replace(/^export /, '').replace(/^declare /, '')

/** Top-level statements without comments and `#private`, which tsc emits for a class with private members. */
function statementsOf(text) {
  const out = []
  for (const line of text.replaceAll(/^\s*\/\*\*[\s\S]*?\*\/\n/gm, '').split('\n')) {
    if (line.trim() === '' || line.trim() === '#private;' || line.startsWith('//#')) continue
    if (/^\w/.test(line) || out.length === 0) out.push(line)
    else out[out.length - 1] += `\n${line}`
  }
  return out
}

const namesInList = (list) =>
  list
    .split(',')
    .map((entry) => entry.trim().replace(/^type /, ''))
    .filter((entry) => entry !== '')
    .map((entry) => {
      const [name, as = name] = entry.split(' as ')
      return [name, as]
    })

/** A name from another package is listed with its origin: that package has its own report. */
function declarationOf(file, from, name, as, local) {
  if (from === undefined) return renamed(local.get(name), name, as)
  if (!from.startsWith('.')) return `from "${from}": ${as}`
  return renamed(exportsOf(fileOf(file, from)).get(name), name, as)
}

const renamed = (declared, name, as) =>
  name === as || declared === undefined
    ? (declared ?? `const ${as}: unknown`)
    : declared.replace(new RegExp(`\\b${name}\\b`), as)

const fileOf = (from, specifier) => join(dirname(from), specifier.replace(/\.ts$/, '.d.ts'))
