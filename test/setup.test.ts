/** The set-up script in a scratch checkout whose path has spaces, with a fake npm that only records how it was called. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { isFaultReport } from '@breakfall/faults'
import { root } from './sources.ts'

let checkout = ''
const calls = (): readonly string[][] =>
  existsSync(join(checkout, 'calls'))
    ? readFileSync(join(checkout, 'calls'), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as string[])
    : []

beforeEach(() => {
  checkout = mkdtempSync(join(tmpdir(), 'a checkout with spaces '))
  cpSync(join(root, 'scripts'), join(checkout, 'scripts'), { recursive: true })
  writeFileSync(join(checkout, 'package-lock.json'), '{}')
  // The fake npm records its arguments, creates the folder that `npm ci` would create, and fails on request.
  writeFileSync(
    join(checkout, 'npm.mjs'),
    `import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
     import { join } from 'node:path'
     const args = process.argv.slice(2)
     appendFileSync(${JSON.stringify(join(checkout, 'calls'))}, JSON.stringify(args) + '\\n')
     console.log('added 35 packages')
     if (process.env.NPM_FAILS) process.exit(7)
     if (args[0] === 'ci') rmSync('node_modules', { recursive: true, force: true })
     mkdirSync('node_modules/.bin', { recursive: true })
     const prefix = args[args.indexOf('--prefix') + 1]
     if (args.includes('--prefix')) {
       const folder = join(prefix, 'node_modules', args.at(-1).split('@')[0], 'bin')
       mkdirSync(folder, { recursive: true })
       writeFileSync(join(folder, 'node'), '')
     }`,
  )
})
afterEach(() => rmSync(checkout, { recursive: true, force: true }))

/** Runs `setUp` as if this were the given Node version. Returns its messages and the Node it chose. */
function setUp(
  dev: boolean,
  options: { node?: string; env?: Record<string, string> } = {},
): { status: number | null; node: string; said: string } {
  const script = `Object.defineProperty(process.versions, 'node', { value: ${JSON.stringify(options.node ?? '24.21.0')} })
    const { setUp } = await import(${JSON.stringify(join(checkout, 'scripts/setup.mjs'))})
    process.stdout.write(setUp({ dev: ${dev} }))`
  const done = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd: checkout,
    encoding: 'utf8',
    env: {
      PATH: process.env['PATH'] ?? '',
      npm_execpath: join(checkout, 'npm.mjs'),
      npm_config_omit: 'dev',
      NODE_ENV: 'production',
      ...options.env,
    },
  })
  return { status: done.status, node: done.stdout, said: done.stderr }
}

test('a fresh checkout is installed once, and the next set-up starts no process at all', () => {
  assert.match(setUp(true).said, /installing packages \(npm ci\)/)
  assert.deepEqual(
    calls().map(([command]) => command),
    ['ci'],
  )
  const again = setUp(true, { env: { NPM_FAILS: '1' } })
  assert.equal(again.status, 0)
  assert.equal(again.said, '')
  assert.equal(calls().length, 1)
})

test('a changed lock file is installed again', () => {
  setUp(true)
  writeFileSync(join(checkout, 'package-lock.json'), '{"changed":true}')
  setUp(true)
  assert.equal(calls().length, 2)
})

test('npm start after a changed lock file keeps the packages that npm test installed', () => {
  setUp(true)
  writeFileSync(join(checkout, 'package-lock.json'), '{"changed":true}')
  setUp(false)
  assert.ok(!calls()[1]?.includes('--omit=dev'))
  setUp(true)
  assert.equal(calls().length, 2)
})

test('npm start installs run-time packages only, npm test the rest, and npm start after npm test has nothing to do', () => {
  setUp(false)
  assert.ok(calls()[0]?.includes('--omit=dev'))
  setUp(true)
  assert.ok(!calls()[1]?.includes('--omit=dev'))
  setUp(false)
  assert.equal(calls().length, 2)
})

/** A lock file with one package for the program, one for tests and one for another machine, and what an own `npm ci` installs. */
function installByHand(...names: readonly ('run' | 'test')[]): void {
  const entry = (name: string, more: object): object => ({ [`node_modules/${name}`]: { version: '1.0.0', ...more } })
  const packages = {
    ...entry('run', { integrity: 'a' }),
    ...entry('test', { integrity: 'b', dev: true }),
    ...entry('other', { optional: true, os: ['another'], cpu: ['another'] }),
    'packages/x': { version: '1.0.0' },
  }
  writeFileSync(join(checkout, 'package-lock.json'), JSON.stringify({ packages }))
  const found = Object.entries(packages).filter(([path]) => names.some((name) => path === `node_modules/${name}`))
  for (const [path] of found) mkdirSync(join(checkout, path), { recursive: true })
  const note = JSON.stringify({ packages: Object.fromEntries(found) })
  writeFileSync(join(checkout, 'node_modules/.package-lock.json'), note)
}

test('what a person installed with npm is kept, with and without the packages for tests', () => {
  installByHand('run', 'test')
  setUp(false)
  setUp(true)
  assert.deepEqual(calls(), [])
  rmSync(join(checkout, 'node_modules'), { recursive: true })
  installByHand('run')
  setUp(false)
  assert.deepEqual(calls(), [])
  setUp(true)
  assert.equal(calls().length, 1, 'npm test needs the rest')
})

test('a package that is missing or another than in the lock file is installed, and the packages for tests are kept', () => {
  installByHand('run', 'test')
  rmSync(join(checkout, 'node_modules/run'), { recursive: true })
  setUp(false)
  rmSync(join(checkout, 'node_modules'), { recursive: true })
  installByHand('test')
  setUp(false)
  assert.deepEqual(
    calls().map((args) => args.includes('--omit=dev')),
    [false, false],
  )
})

test('a question to the launcher installs nothing', () => {
  cpSync(join(root, 'packages/cli/bin'), join(checkout, 'packages/cli/bin'), { recursive: true })
  writeFileSync(join(checkout, 'package.json'), '{"version":"1.2.3"}')
  const ask = (...words: readonly string[]): string =>
    spawnSync(process.execPath, [join(checkout, 'packages/cli/bin/breakfall.mjs'), ...words], {
      encoding: 'utf8',
      env: { PATH: process.env['PATH'] ?? '', npm_execpath: join(checkout, 'npm.mjs'), NPM_FAILS: '1' },
    }).stdout
  assert.equal(ask('--version'), '1.2.3\n')
  assert.match(ask('run', '--help'), /^Usage: breakfall[^]*Nothing was installed/)
  assert.deepEqual(calls(), [])
  ask('run', '--', '--help')
  assert.equal(calls().length, 1, 'a prompt is no question')
})

test('an old Node downloads Node 24 once, and its link survives moving the checkout', () => {
  const first = setUp(true, { node: '20.20.2' })
  assert.match(first.said, /this is Node 20\.20\.2; downloading Node 24/)
  assert.match(first.node, /\/\.node\/24\.[\d.]+\/node_modules\/node-[a-z0-9]+-[a-z0-9]+\/bin\/node$/)
  assert.ok(!readlinkSync(join(checkout, 'node_modules/.bin/node')).startsWith('/'))
  setUp(true, { node: '20.20.2' })
  assert.equal(calls().length, 2)
})

test('npm start and then npm test on an old Node download it once: npm ci does not delete it', () => {
  const first = setUp(false, { node: '20.20.2' })
  const second = setUp(true, { node: '20.20.2' })
  assert.equal(second.node, first.node)
  assert.ok(existsSync(second.node))
  assert.ok(existsSync(join(checkout, 'node_modules/.bin/node')), 'npm scripts find it again')
  assert.deepEqual(
    calls().map(([command]) => command),
    ['ci', 'install', 'ci'],
  )
})

test('a Node that is new enough is used directly', () => {
  for (const node of ['24.12.0', '24.21.0', '26.0.0']) assert.equal(setUp(true, { node }).node, process.execPath)
  assert.notEqual(setUp(true, { node: '24.11.1' }).node, process.execPath)
})

test('a failed install prints one sentence, exits with 1, and is retried next time', () => {
  const failed = setUp(true, { env: { NPM_FAILS: '1' } })
  assert.equal(failed.status, 1)
  assert.match(failed.said, /npm ci failed, so nothing can run/)
  setUp(true)
  assert.equal(calls().length, 2)
})

test('npm writes to stderr, and with --json a failed install is a result on stdout', () => {
  const start = (words: readonly string[]): { stdout: string; stderr: string } =>
    spawnSync(process.execPath, [join(checkout, 'scripts/start.mjs'), ...words], {
      encoding: 'utf8',
      env: { PATH: process.env['PATH'] ?? '', npm_execpath: join(checkout, 'npm.mjs'), NPM_FAILS: '1' },
    })
  const failed = start(['hi', '--json'])
  assert.match(failed.stderr, /added 35 packages[^]*npm ci failed/)
  const { event, outcome, fault } = JSON.parse(failed.stdout) as Record<string, unknown>
  assert.deepEqual([event, outcome], ['result', 'failed'])
  assert.equal(isFaultReport(fault), true)
  assert.equal(start(['--', '--json']).stdout, '')
})

test('a half-written stamp counts as missing', () => {
  setUp(true)
  mkdirSync(join(checkout, 'node_modules'), { recursive: true })
  writeFileSync(join(checkout, 'node_modules/.breakfall-setup.json'), '{"lock":')
  setUp(true)
  assert.equal(calls().length, 2)
})

test('compiled code is cached in the checkout, unless the caller sets another folder', () => {
  const script = `const { environment } = await import(${JSON.stringify(join(checkout, 'scripts/setup.mjs'))})
    process.stdout.write(environment().NODE_COMPILE_CACHE)`
  const cache = (env: Record<string, string>): string =>
    spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8', env }).stdout
  assert.equal(cache({}), join(checkout, 'node_modules/.cache/compile'))
  assert.equal(cache({ NODE_COMPILE_CACHE: join(checkout, 'own') }), join(checkout, 'own'))
})

test('if apt cannot install a package, the message says what to do', () => {
  const bin = join(checkout, 'bin')
  mkdirSync(bin)
  writeFileSync(join(bin, 'apt-get'), '#!/bin/sh\nexit 100\n')
  chmodSync(join(bin, 'apt-get'), 0o755)
  const ask = (path: string): string => {
    const script = `const { wantDebian } = await import(${JSON.stringify(join(checkout, 'scripts/setup.mjs'))})
      process.stdout.write(String(wantDebian('no-such-program', 'no-such-package')))`
    return spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8', env: { PATH: path } })
      .stdout
  }
  assert.match(ask('/nowhere'), /install no-such-package yourself/)
  assert.match(
    ask(bin),
    process.getuid?.() === 0 ? /apt-get could not install no-such-package/ : /sudo apt-get install no-such-package/,
  )
})
