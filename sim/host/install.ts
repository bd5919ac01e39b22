/**
 * Loaded with `--import` before everything else: our packages get the world's clocks, ids, network and files, and an error for
 * every other way out. Only what our own packages import is redirected; `node_modules` see the replaced globals.
 */
import { registerHooks } from 'node:module'
import { installGlobals } from './globals.ts'

const DOORS: Readonly<Record<string, string>> = {
  undici: '../doors/undici.ts',
  'node:crypto': '../doors/crypto.ts',
  'node:net': '../doors/net.ts',
  'node:fs/promises': '../doors/files.ts',
  'node:timers/promises': '../doors/timers.ts',
}

/** Nothing in a universe may use these: importing them is fine, calling them ends it. */
const CLOSED: ReadonlySet<string> = new Set([
  'node:http',
  'node:https',
  'node:dns',
  'node:child_process',
  'node:worker_threads',
])

/** Files are real, because reading them is synchronous; they are written only below the universe's own folder. */
const FILES = 'node:fs'

const SOURCES = /^file:\/\/.*\/packages\/[^/]+\/src\//
const PACKAGES = new URL('../../packages/', import.meta.url).href

type Mutant = { readonly url: string; readonly from: string; readonly to: string }

/** What a module keeps for its whole process: here, one for each simulated process. */
const OF_PROCESS: ReadonlyMap<string, { readonly from: string; readonly to: string }> = new Map([
  [
    new URL('model/src/attempt/time-slice.ts', PACKAGES).href,
    {
      from: 'export const READING = new TimeSlice()',
      to: `import { ofProcess } from ${JSON.stringify(new URL('./of-process.ts', import.meta.url).href)}\nexport const READING = ofProcess(() => new TimeSlice())`,
    },
  ],
])

/** One change of one file, to see that a rule finds it. */
const MUTANT = mutantIn(process.env['SIM_MUTANT'])

registerHooks({
  resolve(specifier, context, next) {
    if (!SOURCES.test(context.parentURL ?? '')) return next(specifier, context)
    const door = DOORS[specifier]
    if (door !== undefined)
      return { url: new URL(door, import.meta.url).href, format: 'module-typescript', shortCircuit: true }
    const isGuarded = CLOSED.has(specifier) || specifier === FILES
    return isGuarded ? { url: `guarded:${specifier}`, format: 'module', shortCircuit: true } : next(specifier, context)
  },
  load(url, context, next) {
    if (url === MUTANT?.url) return mutated(next(url, context), MUTANT)
    const own = OF_PROCESS.get(url)
    if (own !== undefined) return mutated(next(url, context), { url, ...own })
    if (!url.startsWith('guarded:')) return next(url, context)
    return { format: 'module', source: guardedModule(url.slice('guarded:'.length)), shortCircuit: true }
  },
})

installGlobals()

// ---- details ----

function mutantIn(json: string | undefined): Mutant | undefined {
  if (json === undefined) return undefined
  const { file, from, to }: { readonly file: string; readonly from: string; readonly to: string } = JSON.parse(json)
  return { url: new URL(file, PACKAGES).href, from, to }
}

function mutated<T extends { readonly source?: unknown }>(loaded: T, { url, from, to }: Mutant): T {
  const source = String(loaded.source)
  if (source.split(from).length !== 2) throw new Error(`The mutant's text is not in ${url} exactly once: ${from}`)
  return { ...loaded, source: source.replace(from, () => to) }
}

/** The same names as the real module's: what leads out refuses, the rest is itself. */
function guardedModule(specifier: string): string {
  const real: object = process.getBuiltinModule(specifier) ?? {}
  const guards = JSON.stringify(new URL('./globals.ts', import.meta.url).href)
  const lines = Object.entries(real).map(([name, value]) => {
    const it = `real[${JSON.stringify(name)}]`
    if (specifier === FILES)
      return `export const ${name} = ${/^(?:write|append|mkdir|rm|rename|unlink|open|copyFile|cp)/.test(name) ? `ownFile(${JSON.stringify(name)}, ${it})` : it}`
    return `export const ${name} = ${typeof value === 'function' ? `refused(${JSON.stringify(`${specifier} ${name}`)})` : it}`
  })
  return [
    `import { ownFile, refused } from ${guards}`,
    `const real = process.getBuiltinModule(${JSON.stringify(specifier)})`,
    ...lines.filter((line) => !/ const (?:default|constructor) /.test(line)),
    'export default real',
  ].join('\n')
}
