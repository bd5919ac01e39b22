/** The package's entry has to load in a browser: neither zod nor a module of Node is reachable from it. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const packages = fileURLToPath(new URL('../../', import.meta.url))

/** Run-time imports: those that type stripping leaves. */
function imports(text: string): readonly string[] {
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
  const statements = code.matchAll(/^\s*(?:import|export)\s(?!\s*type\b)(?:[^'"`;]*?\sfrom\s+)?['"]([^'"]+)['"]/gm)
  const dynamic = code.matchAll(/\bimport\(\s*['"]([^'"]+)['"]\s*\)/g)
  return [...statements, ...dynamic].map(([, specifier = '']) => specifier)
}

/** The file of a relative import or of one of our packages; undefined for anything else. */
function resolve(from: string, specifier: string): string | undefined {
  if (specifier.startsWith('.')) return join(dirname(from), specifier)
  const [, name = '', sub] = /^@breakfall\/([^/]+)(?:\/(.+))?$/.exec(specifier) ?? []
  if (name === '') return undefined
  const manifest: { exports: Record<string, string> } = JSON.parse(
    readFileSync(join(packages, name, 'package.json'), 'utf8'),
  )
  return join(packages, name, manifest.exports[sub === undefined ? '.' : `./${sub}`] ?? '')
}

function reachable(entry: string): { files: ReadonlySet<string>; outside: ReadonlySet<string> } {
  const files = new Set([entry])
  const outside = new Set<string>()
  for (const file of files) {
    for (const specifier of imports(readFileSync(file, 'utf8'))) {
      const target = resolve(file, specifier)
      if (target === undefined) outside.add(specifier)
      else files.add(target)
    }
  }
  return { files, outside }
}

test('the client loads in a browser: its entry reaches neither zod nor a module of Node', () => {
  const { files, outside } = reachable(join(packages, 'client/src/index.ts'))
  assert.ok(files.size > 10, 'the walk found the sources')
  assert.ok(
    [...files].some((file) => file.endsWith('faults/src/retry-loop.ts')),
    'it crosses packages',
  )
  assert.deepEqual(
    [...outside].filter((specifier) => specifier === 'zod' || isBuiltin(specifier)),
    [],
  )
  assert.deepEqual([...outside], ['eventsource-parser'])
})

test('the walk itself finds zod behind the full wire entry', () => {
  assert.ok(reachable(join(packages, 'wire/src/index.ts')).outside.has('zod'))
})

const BYTES_MAX = 12_000

test('bundled for a browser, the client has no zod in it and is at most 12 kB gzipped', async () => {
  const { build } = await import('esbuild')
  const { outputFiles, metafile } = await build({
    entryPoints: [join(packages, 'client/src/index.ts')],
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    write: false,
    metafile: true,
  })
  const bytes = gzipSync(outputFiles[0]?.contents ?? Buffer.alloc(0)).length
  assert.ok(bytes > 3_000 && bytes <= BYTES_MAX, `${bytes} bytes`)
  assert.deepEqual(
    Object.keys(metafile.inputs).filter((file) => file.includes('node_modules/zod')),
    [],
  )
})
