/** Every export of a package's entry points is used outside the package or documented. Anything else is surface without a user. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { importsOf, resolveRelative, root, sources } from './sources.ts'

/** Exports that no one uses yet, each with a reason. */
const EXCEPTIONS: readonly string[] = []

const files = new Map(
  sources(
    'packages/*/src/**/*.{ts,tsx}',
    'packages/*/test/**/*.ts',
    'bench/**/*.ts',
    'e2e/**/*.ts',
    'sim/**/*.ts',
    'test/**/*.ts',
  ).map((source) => [source.path, source]),
)
/** Without the lists of all exports in the READMEs, which `api.test.ts` checks. */
const documents = sources('*.md', 'docs/**/*.md', 'packages/*/*.md').map((source) => ({
  ...source,
  text: source.text.replace(/^## Exports\n[\s\S]*?(?=^More: |^## )/m, ''),
}))

/** The names that a file exports, following `export *`. */
function exportedBy(path: string): readonly string[] {
  const text = files.get(path)?.text ?? ''
  const names = new Set<string>()
  for (const [, list = ''] of text.matchAll(/^export (?:type )?\{([^}]*)\}/gm))
    for (const entry of list.split(',')) {
      const name = entry
        .replace(/\/\/.*$/gm, '')
        .trim()
        .split(/\s+as\s+/)
        .at(-1)
        ?.replace(/^type\s+/, '')
      if (name) names.add(name)
    }
  const declared =
    /^export (?:declare )?(?:async )?(?:abstract )?(?:const|let|function\*?|class|type|interface) (\w+)/gm
  for (const [, name = ''] of text.matchAll(declared)) names.add(name)
  for (const [, target = ''] of text.matchAll(/^export \* from '([^']+)'/gm))
    for (const name of exportedBy(resolveRelative(path, target))) names.add(name)
  return [...names]
}

/** Names that files outside the package import from it, whatever the sub-path. */
function usedFrom(name: string): ReadonlySet<string> {
  const used = new Set<string>()
  for (const { path, text } of files.values()) {
    if (path.startsWith(`packages/${name}/src/`)) continue
    if (!importsOf(text).some(({ specifier }) => reaches(path, specifier, name))) continue
    for (const [, list = '', specifier = ''] of text.matchAll(
      /(?:^(?:import|export)\s+(?:type\s+)?|const\s+)\{([^}]*)\}\s*(?:from|=\s*await\s+import\()\s*'([^']+)'/gm,
    )) {
      if (!reaches(path, specifier, name)) continue
      for (const entry of list.split(',')) {
        const first = entry
          .trim()
          .replace(/^type\s+/, '')
          .split(/\s+as\s+|:/)[0]
          ?.trim()
        if (first) used.add(first)
      }
    }
    // `const [{ a }, { b }] = await Promise.all([…])`: every name destructured beside a dynamic import counts.
    if (importsOf(text).some(({ specifier, dynamic }) => dynamic && reaches(path, specifier, name)))
      for (const [, list = ''] of text.matchAll(/\{([\w\s,:]+)\}(?=[^\n]*= await|, \{|\])/g))
        for (const entry of list.split(',')) used.add(entry.split(':')[0]?.trim() ?? '')
    for (const [, member = ''] of text.matchAll(/\bimport\('[^']+'\)\)?\.(\w+)/g)) used.add(member)
    for (const [, alias = ''] of text.matchAll(/import \* as (\w+) from/g))
      for (const [, member = ''] of text.matchAll(new RegExp(`\\b${alias}\\.(\\w+)`, 'g'))) used.add(member)
  }
  return used
}

/** A package's own tests may use its entry points, but that alone does not make an export part of its surface. */
function reaches(path: string, specifier: string, name: string): boolean {
  if (path.startsWith(`packages/${name}/`)) return false
  if (specifier === `@breakfall/${name}` || specifier.startsWith(`@breakfall/${name}/`)) return true
  return specifier.startsWith('.') && resolveRelative(path, specifier).startsWith(`packages/${name}/src/`)
}

const isDocumented = (name: string): boolean =>
  documents.some(({ text }) =>
    new RegExp(`\`[^\`\\n]*\\b${name}\\b[^\`\\n]*\`|\`\`\`[\\s\\S]*?\\b${name}\\b[\\s\\S]*?\`\`\``).test(text),
  )

/** Whether it is a type in the declaration of something that is needed: callers must be able to name what they pass and get. */
function isTypeOf(name: string, type: string, needed: readonly string[]): boolean {
  const own = [...files.values()].filter(({ path }) => path.startsWith(`packages/${name}/src/`))
  if (
    !own.some(({ text }) =>
      new RegExp(`^export (?:type|interface) ${type}\\b|^export type \\{[^}]*\\b${type}\\b`, 'm').test(text),
    )
  )
    return false
  return own.some(({ text }) =>
    needed.some((one) =>
      new RegExp(`^export (?:async )?(?:const|function\\*?|class|type|interface) ${one}\\b[\\s\\S]*?^[})\\]]`, 'm')
        .exec(text)?.[0]
        ?.match(new RegExp(`\\b${type}\\b`)),
    ),
  )
}

const packages = [
  ...new Set([...files.keys()].filter((path) => path.includes('/src/')).map((path) => path.split('/')[1] ?? '')),
]

for (const name of packages)
  test(`every export of ${name} is used by another package, a benchmark or a whole-system test, or documented`, () => {
    const manifest: { exports: Record<string, string> } = JSON.parse(
      readFileSync(join(root, 'packages', name, 'package.json'), 'utf8'),
    )
    const exported = Object.values(manifest.exports).flatMap((target) => exportedBy(join('packages', name, target)))
    const used = usedFrom(name)
    const needed = [...new Set(exported)].filter((one) => used.has(one) || isDocumented(one))
    const idle = [...new Set(exported)].filter((one) => !needed.includes(one) && !isTypeOf(name, one, needed))
    assert.deepEqual(
      idle.map((one) => `${name}: ${one}`).filter((one) => !EXCEPTIONS.includes(one)),
      [],
    )
  })

test('the check sees exports and their users', () => {
  assert.ok(exportedBy('packages/faults/src/index.ts').includes('Fault'))
  assert.ok(usedFrom('faults').has('Fault'))
  assert.ok(!usedFrom('faults').has('NoSuchExport'))
})
