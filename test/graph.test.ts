/** Which package may import which, as the table in ARCHITECTURE.md says. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { importsOf, resolveRelative, root, type Source, sources } from './sources.ts'

type Row = {
  /** A package, or one entry of it. */
  readonly always: readonly string[]
  /** Only when it is needed, because a normal start must not load it. */
  readonly onDemand: readonly string[]
}

/** The rows of the table under "Map": package, what it is, what it may import. */
function tableIn(page: string): ReadonlyMap<string, Row> {
  const [, map = ''] = page.split(/^## /m)
  const names = (list = ''): readonly string[] => list.match(/[a-z][a-z/]*/g) ?? []
  return new Map(
    Array.from(map.matchAll(/^\| `(\w+)` \|.*\| ([^|]*) \|$/gm), ([, name = '', cell = '']) => {
      const [always, onDemand] = cell.split('; on demand: ')
      return [name, { always: names(always), onDemand: names(onDemand) }]
    }),
  )
}

const TABLE = tableIn(readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8'))

/** Loaded if the program has them; only their types may be imported. `scripts/packages.mjs` declares them. */
const OPTIONAL_PEERS: Readonly<Record<string, readonly string[]>> = { model: ['@opentelemetry/api'] }

/** Code that runs in a browser imports nothing from Node. */
const BROWSER = ['packages/faults/src/', 'packages/wire/src/', 'packages/client/src/', 'packages/console/src/']
const isBrowser = (path: string): boolean =>
  BROWSER.some((folder) => path.startsWith(folder)) && !path.startsWith('packages/wire/src/node/')

const packageOf = (path: string): string => path.split('/')[1] ?? ''

type Dependencies = Record<string, string>
type Manifest = { dependencies?: Dependencies; devDependencies?: Dependencies; optionalDependencies?: Dependencies }
const manifest = (path: string): Manifest => JSON.parse(readFileSync(join(root, path), 'utf8')) as Manifest

/** `@scope/name/sub` and `name/sub` without the sub path. */
const packageName = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')

export function violations(source: Source): readonly string[] {
  const own = packageOf(source.path)
  const out: string[] = []
  for (const { specifier, dynamic, typeOnly } of importsOf(source.text)) {
    const wrong = (why: string): number => out.push(`${source.path} imports ${specifier}: ${why}`)
    if (specifier.startsWith('.')) {
      if (!resolveRelative(source.path, specifier).startsWith(`packages/${own}/`))
        wrong('reaches into another package by path')
      else if (!/\.(?:tsx?|json|sh|mjs)$/.test(specifier)) wrong('a relative import carries its ending')
    } else if (specifier.startsWith('@breakfall/')) {
      const target = specifier.slice('@breakfall/'.length)
      const isIn = (entries: readonly string[] = []): boolean =>
        entries.some((entry) => target === entry || (!entry.includes('/') && target.startsWith(`${entry}/`)))
      const row = TABLE.get(own)
      if (!isIn(row?.always) && !((dynamic || typeOnly) && isIn(row?.onDemand))) wrong('the table does not allow it')
      else if (manifest(`packages/${own}/package.json`).dependencies?.[packageName(specifier)] === undefined)
        wrong('not a declared dependency')
    } else if (isBuiltin(specifier)) {
      if (!specifier.startsWith('node:')) wrong('say node:')
      if (isBrowser(source.path)) wrong('this runs in a browser')
    } else if (typeOnly && (OPTIONAL_PEERS[own] ?? []).includes(specifier)) {
      continue
    } else if (dynamic && manifest(`packages/${own}/package.json`).optionalDependencies?.[specifier] !== undefined) {
      continue // may be missing, so it is loaded on demand
    } else if (manifest(`packages/${own}/package.json`).dependencies?.[packageName(specifier)] === undefined) {
      wrong('not a declared dependency')
    }
  }
  return out
}

test('every package imports only what the table allows and its manifest declares', () => {
  const files = sources('packages/*/src/**/*.{ts,tsx}')
  assert.ok(files.length > 30, 'the sources were found')
  assert.deepEqual(files.flatMap(violations), [])
})

test('the table has a row for every package, and allows no package that is not there or not imported', () => {
  const files = sources('packages/*/src/**/*.{ts,tsx}')
  const packages = new Set(files.map((source) => packageOf(source.path)))
  assert.deepEqual([...TABLE.keys()].toSorted(), [...packages].toSorted())
  const idle = [...TABLE].flatMap(([name, { always, onDemand }]) => {
    const own = files.filter(({ path }) => packageOf(path) === name).map(({ text }) => text)
    return [...always, ...onDemand]
      .filter((entry) => !own.some((text) => new RegExp(`'@breakfall/${entry}['/]`).test(text)))
      .map((entry) => `${name} never imports ${entry}`)
  })
  assert.deepEqual(idle, [])
})

test('the check finds forbidden, undeclared and relative imports, and a static import of a package that must load on demand', () => {
  const source = (path: string, text: string): Source => ({ path, text, code: text })
  assert.equal(violations(source('packages/faults/src/x.ts', "import { z } from 'zod'")).length, 1)
  assert.equal(violations(source('packages/faults/src/x.ts', "import { readFileSync } from 'node:fs'")).length, 1)
  assert.equal(
    violations(source('packages/model/src/x.ts', "import {\n  a,\n  b,\n} from '@breakfall/runner/client'")).length,
    1,
  )
  assert.equal(violations(source('packages/daemon/src/x.ts', "import { a } from '@breakfall/runner'")).length, 1)
  assert.equal(violations(source('packages/daemon/src/x.ts', "import { a } from '@breakfall/runner/client'")).length, 0)
  assert.equal(violations(source('packages/wire/src/x.ts', "import { a } from '../../faults/src/fault.ts'")).length, 1)
  assert.equal(violations(source('packages/cli/src/x.ts', "import { a } from '@breakfall/chaos'")).length, 1)
  assert.equal(violations(source('packages/cli/src/x.ts', "const a = await import('@breakfall/chaos')")).length, 0)
})

/** Who imports whom among the folders and files that lie side by side, by the folder they lie in. */
type Siblings = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>

function siblingsOf(files: readonly Source[]): Siblings {
  const found = new Map<string, Map<string, Set<string>>>()
  for (const { path, text } of files) {
    for (const { specifier } of importsOf(text)) {
      if (!specifier.startsWith('.')) continue
      const from = path.split('/')
      const to = resolveRelative(path, specifier).split('/')
      const at = from.findIndex((part, index) => part !== to[index])
      const parent = from.slice(0, at).join('/')
      const children = found.get(parent) ?? new Map<string, Set<string>>()
      const imported = children.get(from[at] ?? '') ?? new Set<string>()
      found.set(parent, children.set(from[at] ?? '', imported.add(to[at] ?? '')))
    }
  }
  return found
}

/** Ways that lead from a folder or file back to itself, the shortest for each place that has one. */
export function circles(files: readonly Source[]): readonly string[] {
  return [...siblingsOf(files)].flatMap(([parent, imports]) =>
    [...imports.keys()].flatMap((start) => {
      const queue: string[][] = [[start]]
      const seen = new Set<string>()
      for (const way of queue) {
        const next = imports.get(way.at(-1) ?? '') ?? new Set<string>()
        if (next.has(start)) return [`${parent}: ${[...way, start].join(' → ')}`]
        for (const name of next) if (!seen.has(name)) queue.push([...way, (seen.add(name), name)])
      }
      return []
    }),
  )
}

test('folders have a direction: no folder depends on itself through others', () => {
  assert.deepEqual(circles(sources('packages/*/src/**/*.{ts,tsx}')), [])
})

test('the check finds folders that need each other, directly, through a third one, and through a file beside them', () => {
  const source = (path: string, specifier: string): Source => {
    const text = `import type { A } from '${specifier}'`
    return { path: `packages/x/src/${path}`, text, code: text }
  }
  assert.deepEqual(circles([source('a/1.ts', '../b/2.ts'), source('a/2.ts', './1.ts')]), [])
  assert.equal(circles([source('a/1.ts', '../b/2.ts'), source('b/3.ts', '../a/4.ts')]).length, 2)
  assert.equal(
    circles([source('a/1.ts', '../b/2.ts'), source('b/3.ts', '../c/4.ts'), source('c/5.ts', '../a/6.ts')]).length,
    3,
  )
  assert.equal(circles([source('a/b/1.ts', '../c/2.ts'), source('a/c/3.ts', '../b/4.ts')]).length, 2)
  assert.equal(circles([source('options.ts', './a/1.ts'), source('a/2.ts', '../options.ts')]).length, 2)
})

test('tests and benchmarks import only what some package or the root declares', () => {
  const rootManifest = manifest('package.json')
  const declared = new Set(Object.keys(rootManifest.devDependencies ?? {}))
  for (const name of TABLE.keys()) {
    for (const dependency of Object.keys(manifest(`packages/${name}/package.json`).dependencies ?? {}))
      declared.add(dependency)
    declared.add(`@breakfall/${name}`)
  }
  const undeclared = sources('packages/*/test/**/*.ts', 'test/**/*.ts', 'bench/**/*.ts', 'e2e/**/*.ts').flatMap(
    (source) =>
      importsOf(source.text)
        .filter(
          ({ specifier }) =>
            !specifier.startsWith('.') && !isBuiltin(specifier) && !declared.has(packageName(specifier)),
        )
        .map(({ specifier }) => `${source.path} imports ${specifier}`),
  )
  assert.deepEqual(undeclared, [])
})

test('the test kit does not depend on product code', () => {
  const reaching = sources('test/kit/**/*.ts').flatMap(({ path, text }) =>
    importsOf(text)
      .filter(({ specifier }) =>
        specifier.startsWith('.')
          ? !resolveRelative(path, specifier).startsWith('test/kit/')
          : specifier.startsWith('@breakfall/'),
      )
      .map(({ specifier }) => `${path} imports ${specifier}`),
  )
  assert.deepEqual(reaching, [])
})
