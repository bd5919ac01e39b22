/** No import cycle, static or through `import()`, inside a package or across packages. Imports of types count too. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { importsOf, resolveRelative, root, sources } from './sources.ts'

type Graph = ReadonlyMap<string, readonly string[]>

/** Every chain of imports that leads back to its start, each once. */
function cyclesIn(graph: Graph): readonly string[] {
  const done = new Set<string>()
  const found: string[] = []
  const visit = (file: string, path: readonly string[]): void => {
    const from = path.indexOf(file)
    if (from >= 0) return void found.push([...path.slice(from), file].join(' → '))
    if (done.has(file)) return
    for (const next of graph.get(file) ?? []) visit(next, [...path, file])
    done.add(file)
  }
  for (const file of graph.keys()) visit(file, [])
  return found
}

/** The file behind `@breakfall/name/sub`, by the package's own `exports`. */
function entryOf(specifier: string): string {
  const [, name = '', ...sub] = specifier.split('/')
  const manifest: { exports?: Record<string, string> } = JSON.parse(
    readFileSync(join(root, 'packages', name, 'package.json'), 'utf8'),
  )
  return join('packages', name, manifest.exports?.[['.', ...sub].join('/')] ?? '')
}

test('no file imports itself through others', () => {
  const graph = new Map(
    sources('packages/*/src/**/*.{ts,tsx}').map(({ path, text }) => [
      path,
      importsOf(text).flatMap(({ specifier }) => {
        if (specifier.startsWith('.')) return [resolveRelative(path, specifier)]
        return specifier.startsWith('@breakfall/') ? [entryOf(specifier)] : []
      }),
    ]),
  )
  assert.ok(graph.size > 30, 'the sources were found')
  assert.deepEqual(cyclesIn(graph), [])
})

test('the check finds a cycle of one, of two, and behind a chain', () => {
  assert.deepEqual(cyclesIn(new Map([['a', ['a']]])), ['a → a'])
  assert.deepEqual(
    cyclesIn(
      new Map([
        ['a', ['b']],
        ['b', ['c']],
        ['c', ['b']],
      ]),
    ),
    ['b → c → b'],
  )
  assert.deepEqual(
    cyclesIn(
      new Map([
        ['a', ['b', 'c']],
        ['b', ['c']],
        ['c', []],
      ]),
    ),
    [],
  )
})
