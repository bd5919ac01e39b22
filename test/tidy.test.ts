/** Style rules as tests, so reviewers do not have to repeat them. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sleepingLoops } from './sleeping-loops.ts'
import { importsOf, resolveRelative, root, sources } from './sources.ts'

const product = sources('packages/*/src/**/*.{ts,tsx}')
const everything = sources(
  'packages/*/{src,test}/**/*.{ts,tsx}',
  'test/**/*.ts',
  'bench/**/*.ts',
  'e2e/**/*.ts',
  'sim/**/*.ts',
  'scripts/*.mjs',
  'packages/*/build.mjs',
)

/** Files at an edge, which may read the clock and use randomness. All others take them as arguments. */
const EDGES: readonly RegExp[] = [
  /^packages\/faults\/src\/(?:report|reported-fault|classify)\.ts$/, // default for a fault without a time, and for Retry-After without a clock
  /^packages\/wire\/src\/node\//,
  /\/src\/(?:(?:lib|link)\/)?(?:clock|main)\.ts$/,
  /^packages\/engine\/src\/store\/postgres\/clock\.ts$/,
  /^packages\/cli\/src\//,
]

function lines(pattern: RegExp, files: readonly { path: string; code: string }[]): readonly string[] {
  return files.flatMap(({ path, code }) =>
    code.split('\n').flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
  )
}

test('only files at an edge read the clock or use randomness', () => {
  const inner = product.filter(({ path }) => !EDGES.some((edge) => edge.test(path)))
  assert.deepEqual(lines(/\bMath\.random\s*\(|\bDate\.now\s*\(|\bnew Date\(\)/, inner), [])
})

/** Files of the engine that reach files, processes, threads or the network, so their time is the machine's. */
const HOSTS =
  /^packages\/engine\/src\/(?:clock|model-server|store\/.*|runner\/(?:call-back|endpoint|find-runner|local-runner|resolver))\.ts$/

test('time enters the engine through its clock, timers included', () => {
  const inner = product.filter(({ path }) => path.startsWith('packages/engine/src/') && !HOSTS.test(path))
  assert.ok(inner.length > 50)
  const timers =
    /\b(?:set(?:Timeout|Interval|Immediate)|AbortSignal\.timeout|performance\.now|within|sleep)(?<!\bclock\.\w+)\(|node:timers/
  assert.deepEqual(lines(timers, inner), [])
})

/** Loops that may sleep. Those that repeat a failed call ask `decide`; the shared store repeats its own statements by a fixed rule. */
const SLEEPING_LOOPS: Readonly<Record<string, string>> = {
  'packages/faults/src/retry-loop.ts': 'repeats calls: `decide` says whether and when',
  'packages/model/src/client/stream-answer.ts': 'waits between the rungs that the answer machine chose',
  'packages/model/src/relay/relay-run.ts': 'waits between the rungs that the answer machine chose',
  'packages/model/src/attempt/background.ts': 'waits shortly before it reads on, and polls for the end of a response',
  'packages/engine/src/loop/engine.ts':
    'waits until a time from the journal, and checks whether a full disk has room again',
  'packages/engine/src/session/coalesce.ts': 'batches journal writes',
  'packages/engine/src/service/session-commands.ts': 'polls for an outcome that a hint may not report',
  'packages/engine/src/session/ownership.ts': 'waits for a lease',
  'packages/supervisor/src/clock.ts': 'measures a limit in slices, because a machine may sleep',
  'packages/engine/src/poll.ts': 'asks the shared store now and then, whatever the last answer was',
  'packages/engine/src/store/postgres/group-append.ts': 'gives up on a connection, never on an append',
  'packages/engine/src/store/postgres/pool.ts': 'a statement that may be repeated, until ten seconds are over',
  'packages/daemon/src/api/events.ts': 'waits for a slow reader',
  'packages/engine/src/runner/local-runner.ts': 'waits for a process to end',
  'packages/wire/src/node/body.ts': 'a body that must arrive in time',
  'packages/cli/src/commands/up/up.ts': 'waits for the work to end',
  'packages/cli/src/commands/run/downloads.ts': 'waits for downloads to end',
  'packages/cli/src/commands/uninstall/uninstall.ts': 'waits for a process to end',
  'packages/model/src/lib/lifetime.ts': 'splits a deadline into timers that Node can hold',
  'packages/supervisor/src/supervise.ts': "a child's life cycle: each restart asks decide",
  'packages/supervisor/src/health-monitor.ts': 'probes at a fixed pace',
  'packages/runner/src/lib/poll-until.ts':
    'polls for what no event reports: the end of a process, an empty control group, room on disk',
  'packages/client/src/connection.ts': 'reads a stream: its timer ends a connection that is silent',
  'packages/mcp/src/connection.ts': 'listens again for changes of the tools',
  'packages/mcp/src/http-link.ts': 'connects again: each attempt asks decide',
  'packages/mcp/src/server.ts': 'sends a call again that its server put off, at most ten times',
  'packages/mcp/src/tasks.ts': 'polls for the end of a task at the pace that its server sets',
  'packages/chaos/src/exchange.ts': 'injects delays',
  'packages/chaos/src/rehearsal/server.ts': 'paces a scripted answer',
}

test('no loop sleeps between attempts except those that are listed here with a reason', () => {
  const found = product.flatMap(sleepingLoops)
  assert.deepEqual(
    found.filter((place) => !(String(place.split(':')[0]) in SLEEPING_LOOPS)),
    [],
    'repeat calls with `retrying` from @breakfall/faults',
  )
  const files = new Set(found.map((place) => place.split(':')[0]))
  assert.deepEqual(
    Object.keys(SLEEPING_LOOPS).filter((file) => !files.has(file)),
    [],
    'these files have no loop that sleeps any more',
  )
})

test('code waits with `sleep` and `within` of @breakfall/faults, or with a clock that is an argument', () => {
  assert.deepEqual(
    product.filter(({ text }) => /\bsetTimeout\b.* from 'node:timers\/promises'/.test(text)).map(({ path }) => path),
    ['packages/runner/src/lib/poll-until.ts'], // its process may end meanwhile
  )
})

test('no rejection is swallowed without a comment that says why', () => {
  const silent = /\.catch\(\s*\(\s*\)\s*=>\s*(?:\{\s*\}|undefined)\s*\)/g
  const empty = product.flatMap(({ path, text }) =>
    [...text.matchAll(silent)].flatMap((match) => {
      const before = text.slice(0, match.index).split('\n')
      const rest = text.slice(match.index + match[0].length).split('\n')[0] ?? ''
      const isSaid = /\/\/|\/\*/.test(rest) || /^\s*(?:\/\/|\*|\/\*)/.test(before.at(-2) ?? '')
      return isSaid ? [] : [`${path}:${before.length}`]
    }),
  )
  assert.deepEqual(empty, [])
})

test('no leftover markers and no focused tests', () => {
  // Spelled in two parts, or this line would match itself.
  const leftover = new RegExp(['\\b(?:TO', 'DO|FIX', 'ME|XX', 'X|HA', 'CK)\\b'].join(''))
  assert.deepEqual(
    everything.flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, i) => (leftover.test(line) ? [`${path}:${i + 1}`] : [])),
    ),
    [],
  )
  assert.deepEqual(lines(/\b(?:test|it|describe)\.only\(|\bonly:\s*true/, everything), [])
})

test('no path is taken from a URL without decoding it: a checkout may be in a folder with a space', () => {
  assert.deepEqual(lines(/import\.meta\.url\)\.pathname/, everything), [])
})

test('every source file starts with a comment that says what it is for', () => {
  const silent = product.filter(({ text }) => !/^(?:#!.*\n)?\s*\/\*\*/.test(text)).map(({ path }) => path)
  assert.deepEqual(silent, [])
})

test('every source file is imported somewhere', () => {
  const entries = new Set<string>()
  for (const { path, text } of everything) {
    for (const { specifier } of importsOf(text))
      if (specifier.startsWith('.')) entries.add(resolveRelative(path, specifier))
    // Programs are started, not imported; some file names their path.
    for (const [, name] of text.matchAll(/['"`]([./\w-]*[\w-]+\.tsx?)['"`]/g))
      entries.add(name?.split('/').at(-1) ?? '')
    // The published package has other endings: `./worker${extname(…)}`.
    for (const [, name = ''] of text.matchAll(/([\w-]+)\$\{extname\(/g)) entries.add(`${name}.ts`)
  }
  const packages = new Set(product.map(({ path }) => path.split('/')[1] ?? ''))
  for (const name of packages) {
    const { exports } = JSON.parse(readFileSync(join(root, `packages/${name}/package.json`), 'utf8')) as {
      exports: Record<string, string>
    }
    for (const target of Object.values(exports)) entries.add(join('packages', name, target))
  }
  const orphans = product
    .map(({ path }) => path)
    .filter((path) => !entries.has(path) && !entries.has(path.split('/').at(-1) ?? ''))
  assert.deepEqual(orphans, [])
})

test('no file is named utils, common or helpers', () => {
  assert.deepEqual(
    product.map(({ path }) => path).filter((path) => /\/(?:utils?|common|helpers?|misc)\b/.test(path)),
    [],
  )
})

test('the standard documents exist', () => {
  const wanted = [
    'README.md',
    'ARCHITECTURE.md',
    'CONTRIBUTING.md',
    'CHANGELOG.md',
    'SECURITY.md',
    'LICENSE',
    'AGENTS.md',
    'docs/start.md',
    'docs/GLOSSARY.md',
    'docs/concepts',
    'docs/how-to',
    'docs/faults',
    'docs/decisions',
  ]
  assert.deepEqual(
    wanted.filter((path) => !existsSync(join(root, path))),
    [],
  )
})

test('no link between documents is broken', () => {
  const broken = sources('*.md', 'docs/**/*.md', 'bench/**/*.md', 'packages/*/*.md').flatMap(({ path, text }) =>
    [...text.matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)/g)].flatMap(([, target]) =>
      existsSync(join(root, resolveRelative(path, target ?? ''))) ? [] : [`${path}: ${target}`],
    ),
  )
  assert.deepEqual(broken, [])
})

test('the repository contains no symbolic links: they would break on another machine', (t) => {
  const listed = spawnSync('git', ['ls-files', '--stage'], { cwd: root, encoding: 'utf8' })
  if (listed.status !== 0) return t.skip('not a checkout, or no git')
  const links = listed.stdout.split('\n').filter((line) => line.startsWith('120000'))
  assert.deepEqual(links, [])
  assert.ok(listed.stdout.includes('package.json'))
})
