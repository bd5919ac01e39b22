/**
 * The packages as users get them: built, packed, and installed into a new project outside the checkout. One build, one pack and one
 * install serve all tests of a file.
 *
 * I1  The install needs no network if npm's cache has what `npm ci` installed: the project's lock has the checkout's versions.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Program } from '../../test/kit/program.ts'
import { root } from '../../test/sources.ts'

export const LIBRARIES = ['chaos', 'client', 'faults', 'gateway', 'mcp', 'model', 'runner', 'supervisor', 'wire']

/** The oldest release that the libraries promise to support. */
const OLD_NODE = '22.19.0'

export type Packed = {
  readonly name: string
  readonly version: string
  readonly filename: string
  readonly integrity: string
  readonly size: number
  readonly files: readonly { readonly path: string }[]
}

/** A folder for thousands of small files: in memory if there is room, which is ten times as fast. */
export function folderForInstalls(): string {
  const memory = '/dev/shm'
  const { bavail, bsize } = existsSync(memory) ? statfsSync(memory) : { bavail: 0, bsize: 0 }
  return mkdtempSync(join(bavail * bsize > ROOM_BYTES ? memory : tmpdir(), 'breakfall-install-'))
}

const ROOM_BYTES = 2 ** 30

/** Builds all packages into `folder`, one folder each. */
export function build(folder: string): void {
  succeed(process.execPath, [join(root, 'scripts/build.mjs'), '--out', folder], root)
}

/** Packs every folder in `from` into a file in `to`. */
export function pack(from: string, to: string): readonly Packed[] {
  mkdirSync(to, { recursive: true })
  const folders = globSync('*', { cwd: from }).map((name) => join(from, name))
  return JSON.parse(npm(['pack', '--json', '--pack-destination', to, ...folders], to))
}

/** `npm install` of all packed files into `folder`, which is created if it is missing. */
export function install(folder: string, packages: string, packed: readonly Packed[]): void {
  mkdirSync(folder, { recursive: true })
  const file = join(folder, 'package.json')
  if (!existsSync(file)) {
    writeFileSync(file, '{"private":true,"type":"module"}')
    writeFileSync(
      join(folder, 'package-lock.json'),
      JSON.stringify(lockFor(npm(['config', 'get', 'registry'], folder))),
    ) // I1
  }
  npm(
    [
      'install',
      '--prefer-offline',
      '--no-audit',
      '--no-fund',
      '--loglevel=error',
      ...packed.map(({ filename }) => join(packages, filename)),
    ],
    folder,
  )
}

/** Types of Node, as a TypeScript user has them. */
export function addNodeTypes(folder: string): void {
  mkdirSync(join(folder, 'node_modules/@types'), { recursive: true })
  symlinkSync(join(root, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'))
}

/** npm under this Node, in `folder`. Returns its standard output. */
export const npm = (args: readonly string[], folder: string, env: Readonly<Record<string, string>> = {}): string =>
  succeed('npm', args, folder, env)

/** The oldest supported Node, downloaded once next to the checkout's own. Undefined if it cannot be downloaded. */
export function oldNode(): string | undefined {
  const home = join(root, '.node', OLD_NODE)
  const name = `node-${process.platform}-${process.arch}`
  const binary = join(home, 'node_modules', name, 'bin', 'node')
  if (existsSync(binary)) return binary
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, 'package.json'), '{"private":true}')
  const args = ['install', '--no-save', '--no-package-lock', '--no-audit', '--no-fund', `${name}@${OLD_NODE}`]
  spawnSync('npm', args, { cwd: home, stdio: 'ignore' })
  return existsSync(binary) ? binary : undefined
}

/** The TypeScript examples of a README. */
export function examplesIn(name: string): readonly string[] {
  const text = readFileSync(join(root, 'packages', name, 'README.md'), 'utf8')
  return Array.from(text.matchAll(/^```ts\n([\s\S]*?)^```/gm), ([, code = '']) => code)
}

/** Runs a command in `cwd`, beside others. */
export async function succeeds(command: string, args: readonly string[], cwd: string): Promise<void> {
  await using program = new Program(command, args, { cwd })
  const { code, lines, stderr } = await program.ended
  assert.equal(code, 0, `${command} ${args.slice(0, 4).join(' ')}: ${stderr}\n${lines.join('\n')}`)
}

// ---- details ----

function succeed(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): string {
  const { npm_config_workspace: _workspace, ...inherited } = process.env // of an outer `npm test`
  const done = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    env: { ...inherited, ...env },
    maxBuffer: 64 * 1024 * 1024,
  })
  assert.equal(
    done.status,
    0,
    `${command} ${args.slice(0, 4).join(' ')}: ${done.error?.message ?? done.stderr}\n${done.stdout}`,
  )
  return done.stdout
}

type Entry = { version?: string; dev?: boolean; link?: boolean; resolved?: string }

/** A lock with the checkout's versions of what the packages need at run time. npm adds the packages themselves. */
function lockFor(registry: string): object {
  const lock: { packages: Record<string, Entry> } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  const packages: Record<string, Entry> = { '': {} }
  for (const [path, { dev, ...entry }] of Object.entries(lock.packages)) {
    if (!path.startsWith('node_modules/') || dev === true || entry.link === true) continue
    const name = path.split('node_modules/').at(-1) ?? ''
    const resolved = `${registry.trim().replace(/\/$/, '')}/${name}/-/${name.split('/').at(-1)}-${entry.version}.tgz`
    packages[path] = { resolved, ...entry }
  }
  return { lockfileVersion: 3, requires: true, packages }
}
