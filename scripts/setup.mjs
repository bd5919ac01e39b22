/**
 * Makes the checkout ready to run, on a machine with nothing but Node 20+ and npm. Plain JavaScript: the old Node runs it.
 *
 * I1  Nothing to do costs no process and no network: one stamp file is compared with what it should say.
 * I2  Nothing outside the checkout is touched, but for `apt` where the caller asks for it, as root, on Debian.
 * I3  What could not be done is said in one plain sentence; only what the caller cannot do without is an error.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** The oldest Node that strips types without a flag or a warning, and the one that is fetched where the system's is older. */
const NODE_WANTED = [24, 12]
const NODE_PINNED = '24.21.0'

/** Its own tries at a network that is not there would take 70 s without a word; these take some 15. */
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
 * Installs what is missing and returns the path of the Node to go on with.
 * `dev: false` leaves out what only tests and benchmarks need, so that the first `npm start` is quick.
 */
export function setUp({ dev }) {
  const stamp = readStamp()
  const lock = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex')
  const installed = stamp.lock === lock && (stamp.dev || !dev)
  if (!installed) {
    say(`installing ${dev ? 'packages' : 'run-time packages'} (npm ci${dev ? '' : ' --omit=dev'})`)
    npm(['ci', ...QUIET, ...(dev ? [] : ['--omit=dev'])], 'npm ci failed, so nothing can run')
  }
  const node = nodeFor()
  if (!installed) writeFileSync(stampFile, JSON.stringify({ lock, dev }))
  return node
}

/** Runs `script` again under the checkout's Node where this one is too old for it, and ends with its exit code. */
export function goOnUnder(node, script) {
  if (node === process.execPath || isWanted(process.versions.node)) return
  process.exit(step(node, [fileURLToPath(script), ...process.argv.slice(2)]))
}

/**
 * Environment in which `node` and the tools of the checkout are found first, and every Node keeps what it has compiled:
 * a test file that imports the packages starts in half the time, and so does each process that a test starts.
 */
export function environment() {
  return {
    NODE_COMPILE_CACHE: join(modules, '.cache', 'compile'),
    ...process.env,
    PATH: join(modules, '.bin') + delimiter + (process.env.PATH ?? ''),
  }
}

/** Debian packages that make more tests possible. Only as root, only where apt is; otherwise the reason is returned. */
export function wantDebian(command, packageName) {
  if (onPath(command)) return null
  if (process.platform !== 'linux') return `${command} is a Linux program`
  if (!onPath('apt-get'))
    return `${command} is not installed and there is no apt-get here; install ${packageName} by hand`
  if (process.getuid?.() !== 0) return `${command} is not installed; run: sudo apt-get install ${packageName}`
  say(`installing ${packageName} (apt-get)`)
  const quiet = { stdio: ['ignore', 'ignore', 'ignore'], env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } }
  const install = () =>
    spawnSync('apt-get', ['install', '-y', '--no-install-recommends', packageName], quiet).status === 0
  if (install()) return null
  spawnSync('apt-get', ['update'], quiet)
  return install() ? null : `apt-get could not install ${packageName}`
}

/** Runs a step to its end under the checkout's Node and returns its exit code. */
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

function readStamp() {
  try {
    return JSON.parse(readFileSync(stampFile, 'utf8'))
  } catch {
    return {} // no stamp, or one cut short by a killed set-up: both mean "install again"
  }
}

function npm(args, failure, options = {}) {
  // npm's own path is in the environment of every npm script; calling it by file works where the shell's PATH has spaces or no npm.
  const cli = process.env.npm_execpath
  const byFile = cli && /\.[cm]?js$/.test(cli)
  const done = spawnSync(byFile ? process.execPath : 'npm', byFile ? [cli, ...args] : args, {
    cwd: root,
    stdio: ['ignore', 2, 2], // our stdout may be a program's
    env: withoutNpmSettings(),
    ...options,
  })
  if (done.status === 0) return
  const sentence = `${failure}. ${done.error ? done.error.message : 'See the lines above'}; with no network, a first set-up cannot work.`
  say(sentence)
  if (wantsJson(process.argv.slice(2))) process.stdout.write(`${JSON.stringify(resultOf(sentence))}\n`)
  process.exit(1)
}

/** Words after `--` are no flags. */
function wantsJson(words) {
  const dashes = words.indexOf('--')
  return words.slice(0, dashes === -1 ? words.length : dashes).includes('--json')
}

/** The last line of `--json`, as the program itself would have said it: it cannot be loaded yet. */
function resultOf(error) {
  const row = { category: 'process_start_failed', class: 'needs_action', boundary: 'process', next: 'never' }
  const fault = { ...row, phase: 'set-up', error, errorRaw: error, sideEffects: 'none', diagnostics: [] }
  return { event: 'result', outcome: 'failed', fault: { ...fault, at: new Date().toISOString() } }
}

/** Flags given to the outer `npm test` must not change what the inner one installs. */
function withoutNpmSettings() {
  const env = { ...process.env }
  for (const name of ['npm_config_omit', 'npm_config_include', 'npm_config_prefix', 'npm_config_workspace', 'NODE_ENV'])
    delete env[name]
  return env
}

function nodeFor() {
  const home = join(root, '.node', NODE_PINNED) // not in node_modules, which `npm ci` empties under the Node that runs it
  const name = `node-${process.platform}-${process.arch}`
  const binary = join(home, 'node_modules', name, 'bin', 'node')
  const isOurs = process.execPath === binary
  if (isWanted(process.versions.node) && !isOurs) return process.execPath
  if (!existsSync(binary)) {
    say(`this is Node ${process.versions.node}; fetching Node ${NODE_PINNED} into .node (the system's stays as it is)`)
    mkdirSync(home, { recursive: true })
    writeFileSync(join(home, 'package.json'), '{"private":true}\n')
    npm(
      ['install', '--prefix', home, '--no-save', '--no-package-lock', ...QUIET, `${name}@${NODE_PINNED}`],
      `could not fetch Node ${NODE_PINNED} for ${process.platform} ${process.arch}; install Node ${NODE_WANTED.join('.')} or newer by hand`,
      { cwd: home },
    )
  }
  link(relative(join(modules, '.bin'), binary), join(modules, '.bin', 'node'))
  return binary
}

function isWanted(version) {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > NODE_WANTED[0] || (major === NODE_WANTED[0] && minor >= NODE_WANTED[1])
}

function link(target, path) {
  try {
    if (readlinkSync(path) === target) return
  } catch {
    // not there yet, or not a link: made below
  }
  rmSync(path, { force: true })
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(target, path)
}

function onPath(command) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => folder !== '' && existsSync(join(folder, command)))
}
