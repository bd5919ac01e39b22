/**
 * Builds the page into `dist`, if its sources changed: into a new folder first, then by rename, so a reader never sees half a page.
 * Plain JavaScript that `breakfall up`, `demo`, `open` and `prepack` load on demand.
 */
import { createHash, randomUUID } from 'node:crypto'
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
const dist = join(here, 'dist')

/** The folder with `index.html` and `assets/`. Rejects with a sentence if the page cannot be built. */
export async function buildConsole() {
  const stamp = stampOf()
  if (readIfThere(join(dist, '.stamp')) === stamp) return dist
  const next = join(here, `.dist-${randomUUID()}`)
  try {
    mkdirSync(next, { recursive: true })
    const files = await bundle(next)
    writeFileSync(join(next, 'index.html'), page(files))
    writeFileSync(join(next, '.stamp'), stamp)
    replace(next)
    return dist
  } finally {
    rmSync(next, { recursive: true, force: true })
  }
}

// ---- details, in the order they are used above ----

/** Everything that the result depends on: our sources, those of the packages they import, and the lock file. */
function stampOf() {
  const hash = createHash('sha256')
  const root = dirname(dirname(here))
  const sources = ['packages/console/src/**/*', 'packages/{client,faults,wire}/src/**/*.ts']
    .flatMap((pattern) => globSync(pattern, { cwd: root, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort((a, b) => a.localeCompare(b, 'en'))
  for (const file of [...sources, fileURLToPath(import.meta.url), join(root, 'package-lock.json')]) {
    if (existsSync(file)) hash.update(basename(file)).update('\0').update(readFileSync(file)).update('\0')
  }
  return hash.digest('hex')
}

async function bundle(folder) {
  const { build } = await import('esbuild')
  const result = await build({
    absWorkingDir: here,
    entryPoints: { main: 'src/main.tsx', style: 'src/app.css', icon: 'src/icon.svg' },
    outdir: folder,
    entryNames: 'assets/[name]-[hash]',
    chunkNames: 'assets/[name]-[hash]',
    assetNames: 'assets/[name]-[hash]',
    loader: { '.svg': 'copy' },
    bundle: true,
    splitting: true,
    format: 'esm',
    target: ['chrome123', 'firefox120', 'safari17.5'],
    minify: true,
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    metafile: true,
    logLevel: 'silent',
  })
  writeFileSync(join(folder, '.meta.json'), JSON.stringify(result.metafile))
  const named = (name) =>
    Object.keys(result.metafile.outputs)
      .map((path) => basename(path))
      .find((file) => file.startsWith(`${name}-`))
  return { script: named('main'), style: named('style'), icon: named('icon') }
}

function page({ script, style, icon }) {
  return readFileSync(join(here, 'src/index.html'), 'utf8')
    .replace('{{script}}', `/assets/${script}`)
    .replace('{{style}}', `/assets/${style}`)
    .replace('{{icon}}', `/assets/${icon}`)
}

/** Two programs may build at once: each renames a whole folder, and the last one stays. */
function replace(next) {
  const old = join(here, `.dist-old-${randomUUID()}`)
  if (existsSync(dist)) renameSync(dist, old)
  try {
    renameSync(next, dist)
  } catch (error) {
    if (!existsSync(dist)) throw error // another program was faster, and its page is as good
  }
  rmSync(old, { recursive: true, force: true })
}

function readIfThere(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : ''
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.stdout.write(`${await buildConsole()}\n`)
}
