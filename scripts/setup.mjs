/**
 * Prepares the checkout on a machine that has only Node 20+ and npm. Plain JavaScript, because an old Node runs it.
 *
 * I1  If there is nothing to do, it starts no process and uses no network: it compares one stamp file with the lock file.
 *     It never reinstalls what somebody installed with npm and what satisfies the lock file.
 * I2  It changes nothing outside the checkout, except through `apt` if the caller asks for it, as root, on Debian.
 * I3  Each problem is reported in one plain sentence. Only what the caller cannot do without is an error.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installedIn } from './installed.mjs'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** The oldest Node that strips types without a flag or a warning, and the version to download if the system's Node is older. */
const NODE_WANTED = [24, 12]
const NODE_PINNED = '24.21.0'

/** Without a network npm retries silently for 70 s by default; with these settings it gives up after about 15 s. */
const QUIET = [
  '--no-audit',
  '--no-fund',
  '--loglevel=error',
  '--fetch-retries=3',
  '--fetch-retry-mintimeout=1000',
  '--fetch-retry-factor=3',
]

const modules = join(root, 'node_modules')
const stampFile = join(modules, '.breakfall-setup.json')

/**
 * Installs what is missing and returns the path of the Node to use.
 * `dev: false` leaves out what only tests and benchmarks need, which keeps the first `npm start` short.
 */
export function setUp({ dev }) {
  const { lock, isStamped, isInstalled, hasTools } = whatIsThere(dev)
  const all = dev || hasTools // a developer who pulled a new lock file keeps the tools
  if (!isInstalled) {
    say(`installing ${all ? 'packages' : 'run-time packages'} (npm ci${all ? '' : ' --omit=dev'})`)
    npm(['ci', ...QUIET, ...(all ? [] : ['--omit=dev'])], 'npm ci failed, so nothing can run')
  }
  const node = nodeFor()
  if (!isStamped) writeStamp({ lock, dev: all })
  return node
}

/** Whether the program can start now: `setUp` would install and download nothing. */
export function isSetUp() {
  return whatIsThere(false).isInstalled && (isOwnNodeUsed() || existsSync(pinnedNode()))
}

/** If this Node is too old, runs `script` again under the checkout's Node and exits with its exit code. */
export function rerunUnder(node, script) {
  if (node === process.execPath || isWanted(process.versions.node)) return
  process.exit(step(node, [fileURLToPath(script), ...process.argv.slice(2)]))
}

/**
 * An environment that finds the checkout's `node` and tools first and keeps compiled code: a test file that imports the packages
 * starts in half the time, and so does each process that a test starts.
 */
export function environment() {
  return {
    NODE_COMPILE_CACHE: join(modules, '.cache', 'compile'),
    ...process.env,
    PATH: join(modules, '.bin') + delimiter + (process.env.PATH ?? ''),
  }
}

/** Installs a Debian package that some tests need, if we are root and apt is there. Returns the reason if it could not. */
export function wantDebian(command, packageName) {
  if (onPath(command)) return null
  if (process.platform !== 'linux') return `${command} exists only on Linux`
  if (!onPath('apt-get'))
    return `${command} is not installed, and apt-get is not available; install ${packageName} yourself`
  if (process.getuid?.() !== 0) return `${command} is not installed; run: sudo apt-get install ${packageName}`
  say(`installing ${packageName} (apt-get)`)
  const quiet = { stdio: ['ignore', 'ignore', 'ignore'], env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } }
  const install = () =>
    spawnSync('apt-get', ['install', '-y', '--no-install-recommends', packageName], quiet).status === 0
  if (install()) return null
  spawnSync('apt-get', ['update'], quiet)
  return install() ? null : `apt-get could not install ${packageName}`
}

/** Runs a step in the checkout's environment and returns its exit code. */
export function step(command, args, options = {}) {
  const done = spawnSync(command, args, { stdio: 'inherit', cwd: root, env: environment(), ...options })
  if (done.error) {
    say(`could not run ${command}: ${done.error.message}`)
    return 1
  }
  return done.status ?? 1
}

export function say(line) {
  process.stderr.write(`[setup] ${line}\n`)
}

// ---- details, in the order they are used above ----

/** Without a stamp, as after somebody's own `npm ci`, it compares what npm installed with the lock file. */
function whatIsThere(dev) {
  const stamp = readStamp()
  const lock = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex')
  if (stamp.lock === lock && (stamp.dev || !dev))
    return { lock, isStamped: true, isInstalled: true, hasTools: stamp.dev === true }
  const found = installedIn(root)
  const isInstalled = dev ? found.dev : found.runTime
  return {
    lock,
    isStamped: false,
    isInstalled,
    hasTools: isInstalled ? found.dev : found.someDev || stamp.dev === true,
  }
}

function readStamp() {
  try {
    return JSON.parse(readFileSync(stampFile, 'utf8'))
  } catch {
    return {} // no stamp, or an incomplete one after a killed set-up: install again
  }
}

/** A checkout that is not ours to write in is compared again next time. */
function writeStamp(stamp) {
  try {
    writeFileSync(stampFile, JSON.stringify(stamp))
  } catch (error) {
    if (!['EACCES', 'EPERM', 'EROFS'].includes(error.code)) throw error
  }
}

function npm(args, failure, options = {}) {
  // Every npm script has npm's path in its environment. Calling that file works even if PATH has spaces or no npm.
  const cli = process.env.npm_execpath
  const byFile = cli && /\.[cm]?js$/.test(cli)
  const done = spawnSync(byFile ? process.execPath : 'npm', byFile ? [cli, ...args] : args, {
    cwd: root,
    stdio: ['ignore', 2, 2], // our standard output may belong to a program
    env: withoutNpmSettings(),
    ...options,
  })
  if (done.status === 0) return
  const sentence = `${failure}. ${done.error ? done.error.message : 'See the lines above'}. The first set-up needs a network.`
  say(sentence)
  if (wantsJson(process.argv.slice(2))) process.stdout.write(`${JSON.stringify(resultOf(sentence))}\n`)
  process.exit(1)
}

/** Words after `--` are not flags. */
function wantsJson(words) {
  const dashes = words.indexOf('--')
  return words.slice(0, dashes === -1 ? words.length : dashes).includes('--json')
}

/** The result line of `--json`, as the program would print it. The program itself cannot be loaded yet. */
function resultOf(error) {
  const row = { category: 'process_start_failed', class: 'needs_action', boundary: 'process', next: 'never' }
  const fault = { ...row, phase: 'set-up', error, errorRaw: error, sideEffects: 'none', diagnostics: [] }
  return { event: 'result', outcome: 'failed', fault: { ...fault, at: new Date().toISOString() } }
}

/** Flags of the outer `npm test` must not change what the inner npm installs. */
function withoutNpmSettings() {
  const env = { ...process.env }
  for (const name of ['npm_config_omit', 'npm_config_include', 'npm_config_prefix', 'npm_config_workspace', 'NODE_ENV'])
    delete env[name]
  return env
}

function nodeFor() {
  const binary = pinnedNode()
  if (isOwnNodeUsed()) return process.execPath
  if (!existsSync(binary)) {
    say(
      `this is Node ${process.versions.node}; downloading Node ${NODE_PINNED} into .node (your system's Node is not changed)`,
    )
    mkdirSync(home, { recursive: true })
    writeFileSync(join(home, 'package.json'), '{"private":true}\n')
    npm(
      ['install', '--prefix', home, '--no-save', '--no-package-lock', ...QUIET, `${NODE_PACKAGE}@${NODE_PINNED}`],
      `could not download Node ${NODE_PINNED} for ${process.platform} ${process.arch}; install Node ${NODE_WANTED.join('.')} or newer yourself`,
      { cwd: home },
    )
  }
  link(relative(join(modules, '.bin'), binary), join(modules, '.bin', 'node'))
  return binary
}

const NODE_PACKAGE = `node-${process.platform}-${process.arch}`
const home = join(root, '.node', NODE_PINNED) // not in node_modules: `npm ci` would delete the Node that is running

function pinnedNode() {
  return join(home, 'node_modules', NODE_PACKAGE, 'bin', 'node')
}

function isOwnNodeUsed() {
  return isWanted(process.versions.node) && process.execPath !== pinnedNode()
}

function isWanted(version) {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > NODE_WANTED[0] || (major === NODE_WANTED[0] && minor >= NODE_WANTED[1])
}

function link(target, path) {
  try {
    if (readlinkSync(path) === target) return
  } catch {
    // missing, or not a link: created below
  }
  rmSync(path, { force: true })
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(target, path)
}

function onPath(command) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => folder !== '' && existsSync(join(folder, command)))
}
