/**
 * `npm run build [-- --out DIR]`: makes the packages as they are published, in `packages/NAME/dist` or in `DIR/NAME`.
 * The package `breakfall` is made from the cli. The checkout never runs what is built here.
 */
import { cpSync, existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import {
  COMMAND,
  commandManifest,
  emitted,
  folderOf,
  LIBRARIES,
  libraryManifest,
  packedReadme,
  PARTS,
  rewriteDeclaration,
  rewriteParts,
} from './packages.mjs'
import { rerunUnder, root, setUp, step } from './setup.mjs'

rerunUnder(setUp({ dev: true }), import.meta.url)
const { values } = parseArgs({ options: { out: { type: 'string' } } })
const scratch = mkdtempSync(join(tmpdir(), 'breakfall-build-'))
try {
  process.exitCode = await build()
} finally {
  rmSync(scratch, { recursive: true, force: true })
}

async function build() {
  const code = step('tsc', ['--singleThreaded', '-p', 'tsconfig.build.json', '--outDir', scratch])
  if (code !== 0) return code
  const rootManifest = json('package.json')
  for (const name of LIBRARIES) {
    const source = json(`packages/${name}/package.json`)
    const to = fresh(name)
    copyCode(name, to, reachable(name, Object.values(source.exports)))
    copyTexts(name, to)
    writeJson(join(to, 'package.json'), libraryManifest(source, rootManifest))
  }
  return buildCommand(rootManifest)
}

async function buildCommand(rootManifest) {
  const manifests = Object.fromEntries(PARTS.map((name) => [name, json(`packages/${name}/package.json`)]))
  const entries = {}
  for (const [name, { exports }] of Object.entries(manifests))
    for (const [path, target] of Object.entries(exports))
      entries[`@breakfall/${name}${path.slice(1)}`] = emitted(target, folderOf(name), '.js').slice(2)
  const to = fresh('cli')
  for (const name of PARTS) copyCode(name, to, new Set(), entries)
  copyTexts('cli', to)
  cpSync(join(root, 'packages/cli/bin/installed.mjs'), join(to, 'bin/breakfall.mjs'))
  cpSync(join(root, 'docs/faults'), join(to, 'docs/faults'), { recursive: true })
  await copyConsole(to)
  const { cli, ...others } = manifests
  writeJson(join(to, 'package.json'), commandManifest(cli, Object.values(others), rootManifest))
  return 0
}

// ---- details ----

function json(path) {
  return JSON.parse(readFileSync(join(root, path), 'utf8'))
}

function writeJson(path, value) {
  writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`)
}

/** An empty folder for the package that is made from `packages/NAME`. */
function fresh(name) {
  const to =
    values.out === undefined ? join(root, 'packages', name, 'dist') : join(values.out, name === 'cli' ? COMMAND : name)
  rmSync(to, { recursive: true, force: true })
  mkdirSync(to, { recursive: true })
  return to
}

/** JavaScript with its source maps, the declaration files in `declarations`, and programs that are JavaScript already. */
function copyCode(name, to, declarations, entries = {}) {
  const from = join(scratch, name, 'src')
  for (const file of globSync('**/*.{js,js.map,d.ts}', { cwd: from })) {
    if (file.endsWith('.d.ts') && !declarations.has(file)) continue
    const path = join(folderOf(name), file)
    write(join(to, path), transformed(name, file, readFileSync(join(from, file), 'utf8'), path, entries))
  }
  const sources = join(root, 'packages', name, 'src')
  for (const file of globSync('**/*.{mjs,sh,py}', { cwd: sources }))
    cpSync(join(sources, file), join(to, folderOf(name), file))
}

function transformed(name, file, text, path, entries) {
  if (file.endsWith('.d.ts')) return rewriteDeclaration(text)
  if (file.endsWith('.js')) return rewriteParts(text, path.split('/').length - 1, entries)
  const source = join(PARTS.includes(name) ? `src/${name}` : 'src', file.replace(/\.js\.map$/, '.ts'))
  return JSON.stringify({ ...JSON.parse(text), sources: [relative(dirname(path), source)] })
}

/** The declaration files that the entry points lead to. Readers of the package need no others. */
function reachable(name, targets) {
  const from = join(scratch, name, 'src')
  const found = new Set()
  const visit = (file) => {
    if (found.has(file) || !existsSync(join(from, file))) return
    found.add(file)
    const text = readFileSync(join(from, file), 'utf8')
    for (const [, target] of text.matchAll(/(?:from|import\(|import)\s*['"](\.{1,2}\/[^'"\n]*)\.ts['"]/g))
      visit(join(dirname(file), `${target}.d.ts`))
  }
  for (const target of targets) visit(target.replace(/^\.\/src\//, '').replace(/\.ts$/, '.d.ts'))
  return found
}

/** The built page. Its own files that start with a dot are notes for the next build. */
async function copyConsole(to) {
  const program = join(root, 'packages/console/build.mjs')
  if (!existsSync(program)) return
  const { buildConsole } = await import(program)
  const filter = (path) => !basename(path).startsWith('.')
  cpSync(await buildConsole(), join(to, 'console'), { recursive: true, filter })
}

function copyTexts(name, to) {
  cpSync(join(root, 'LICENSE'), join(to, 'LICENSE'))
  writeFileSync(join(to, 'README.md'), packedReadme(readFileSync(join(root, 'packages', name, 'README.md'), 'utf8')))
}

function write(path, text) {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}
