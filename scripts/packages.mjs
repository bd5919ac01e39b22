/**
 * The packages that are published: what goes into each and what its manifest says. Pure; `build.mjs` writes the files.
 *
 * A manifest in the checkout points to `src/`, so that development needs no build. The published one is made from it here:
 * entry points in `lib/`, the version and the licence of the root manifest, and exact versions of the sibling packages.
 */

/** Packages for other programs, in the order of their dependencies. They run on the oldest Node line that is still maintained. */
export const LIBRARIES = ['faults', 'wire', 'supervisor', 'model', 'client', 'chaos', 'runner', 'gateway', 'mcp']

/** The command. It contains the packages that only it uses. */
export const COMMAND = 'breakfall'
export const PARTS = ['cli', 'daemon', 'engine']

/** 22.19 is what undici 8 asks for; `require()` of an ES module works since 22.12. */
export const LIBRARY_NODE = '>=22.19'
/** The journal uses node:sqlite, which Node 22 still calls experimental, and the command uses `using` stacks of Node 24. */
export const COMMAND_NODE = '>=24.12'

/** Used if the program has them. They are not in the checkout's manifests, where they would be installed for everyone. */
const OPTIONAL_PEERS = { '@breakfall/model': { '@opentelemetry/api': '>=1.9 <2' } }

const KEYWORDS = ['ai', 'agents', 'llm', 'reliability', 'retry', 'streaming']

/** The manifest of a library, as published. `source` is the one in the checkout, `root` that of the repository. */
export function libraryManifest(source, root) {
  return {
    ...head(source.name, source.description, root, LIBRARY_NODE),
    sideEffects: false,
    exports: { ...publishedExports(source.exports), './package.json': './package.json' },
    files: ['lib'],
    ...dependencies([source], root.version),
    ...optionalPeers(source.name),
  }
}

/** The manifest of the command: its dependencies are those of all its parts, without the parts themselves. */
export function commandManifest(cli, parts, root) {
  return {
    ...head(COMMAND, root.description, root, COMMAND_NODE),
    bin: { breakfall: 'bin/breakfall.mjs' },
    exports: { './package.json': './package.json' }, // a program, not a library
    files: ['bin', 'console', 'docs', ...PARTS],
    ...dependencies([cli, ...parts], root.version),
  }
}

/** The folder of the published package that holds the files of `packages/NAME/src`. */
export const folderOf = (name) => (PARTS.includes(name) ? name : 'lib')

/** Points a relative import of a declaration file to the emitted file. tsc rewrites these in JavaScript only. */
export function rewriteDeclaration(text) {
  return text.replace(/((?:from|import\(|import)\s*['"]\.{1,2}\/[^'"\n]*)\.ts(['"])/g, '$1.js$2')
}

/** Inside the command, parts find each other by path: they are not packages there. `depth` = folders between the file and the package. */
export function rewriteParts(text, depth, entries) {
  const up = depth === 0 ? './' : '../'.repeat(depth)
  return text.replace(/(['"])(@breakfall\/(?:cli|daemon|engine)(?:\/[\w-]+)?)\1/g, (whole, quote, specifier) => {
    const target = entries[specifier]
    return target === undefined ? whole : `${quote}${up}${target}${quote}`
  })
}

/** A README without links to pages of the checkout, which lead nowhere once it is installed: it names these pages instead. */
export const packedReadme = (text) =>
  text.replace(/\[([^\]\n]+)\]\((?:\.\.\/)+([^)\s]+)\)/g, "$1, `$2` in Breakfall's repository")

/** `./src/x.ts` as it is in the published package. */
export const emitted = (target, folder, ending) => target.replace(/^\.\/src\//, `./${folder}/`).replace(/\.ts$/, ending)

// ---- details ----

function head(name, description, root, node) {
  const { version, license } = root
  return { name, version, description, keywords: KEYWORDS, license, type: 'module', engines: { node } }
}

function publishedExports(exports) {
  return Object.fromEntries(
    Object.entries(exports).map(([path, target]) => [
      path,
      { types: emitted(target, 'lib', '.d.ts'), default: emitted(target, 'lib', '.js') },
    ]),
  )
}

function optionalPeers(name) {
  const peerDependencies = OPTIONAL_PEERS[name]
  if (peerDependencies === undefined) return {}
  const optional = Object.keys(peerDependencies).map((peer) => [peer, { optional: true }])
  return { peerDependencies, peerDependenciesMeta: Object.fromEntries(optional) }
}

const KINDS = ['dependencies', 'optionalDependencies']

function dependencies(manifests, version) {
  const out = {}
  for (const kind of KINDS) {
    const all = Object.assign({}, ...manifests.map((manifest) => manifest[kind]))
    for (const part of [...PARTS, 'console']) delete all[`@breakfall/${part}`]
    for (const name of Object.keys(all)) if (name.startsWith('@breakfall/')) all[name] = version
    const names = Object.keys(all).sort()
    if (names.length > 0) out[kind] = Object.fromEntries(names.map((name) => [name, all[name]]))
  }
  return out
}
