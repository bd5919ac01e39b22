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

const PACKAGES = new URL('../../packages/', import.meta.url).href

type Mutant = { readonly url: string; readonly from: string; readonly to: string }

/** One change of one file, to see that a rule finds it. */
const MUTANT = mutantIn(process.env['SIM_MUTANT'])

registerHooks({
  resolve(specifier, context, next) {
    if (context.parentURL?.startsWith(PACKAGES) !== true) return next(specifier, context)
    const door = DOORS[specifier]
    if (door !== undefined)
      return { url: new URL(door, import.meta.url).href, format: 'module-typescript', shortCircuit: true }
    if (CLOSED.has(specifier)) return { url: `closed:${specifier}`, format: 'module', shortCircuit: true }
    return next(specifier, context)
  },
  load(url, context, next) {
    if (url === MUTANT?.url) return mutated(next(url, context), MUTANT)
    if (!url.startsWith('closed:')) return next(url, context)
    return { format: 'module', source: closedModule(url.slice('closed:'.length)), shortCircuit: true }
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

/** The same names as the real module's: functions and classes refuse, constants are themselves. */
function closedModule(specifier: string): string {
  const real: object = process.getBuiltinModule(specifier) ?? {}
  const globals = JSON.stringify(new URL('./globals.ts', import.meta.url).href)
  const lines = Object.entries(real).map(([name, value]) =>
    typeof value === 'function'
      ? `export const ${name} = refused(${JSON.stringify(`${specifier} ${name}`)})`
      : `export const ${name} = real[${JSON.stringify(name)}]`,
  )
  return [
    `import { refused } from ${globals}`,
    `const real = process.getBuiltinModule(${JSON.stringify(specifier)})`,
    ...lines.filter((line) => !/ const (default|constructor) /.test(line)),
    'export default real',
  ].join('\n')
}
