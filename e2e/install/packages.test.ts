/** Everything that can be installed, proven from packed files in a project outside the checkout. */
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { after, before, describe, test } from 'node:test'
import { removeFolder } from '../../test/kit/folder.ts'
import { Program } from '../../test/kit/program.ts'
import { say, startScriptedModel } from '../answers.ts'
import { isolation, Place } from '../breakfall.ts'
import {
  addNodeTypes,
  build,
  examplesIn,
  folderForInstalls,
  install,
  LIBRARIES,
  npm,
  oldNode,
  pack,
  type Packed,
  succeeds,
} from './project.ts'
import { root } from '../../test/sources.ts'

const place = folderForInstalls()
const built = join(place, 'built')
const files = join(place, 'files')
const project = join(place, 'project')
const launcher = join(project, 'node_modules/breakfall/bin/breakfall.mjs')
let packed: readonly Packed[] = []

/** The examples of the READMEs, by the name of their file. */
const examples = new Map(
  LIBRARIES.flatMap((name) => examplesIn(name).map((code, at) => [`example-${name}-${at}.ts`, code] as const)),
)

/** The twenty lines of the client's how-to. */
const [, howTo = ''] =
  /^```js\n([\s\S]*?)^```/m.exec(readFileSync(join(root, 'docs/how-to/use-the-client.md'), 'utf8')) ?? []

before(() => {
  build(built)
  packed = pack(built, files)
  install(project, files, packed)
  addNodeTypes(project)
  for (const [file, code] of examples) writeFileSync(join(project, file), code)
})
after(() => removeFolder(place))

const packageOf = (name: string): Packed => {
  const found = packed.find((one) => one.name === name)
  assert.ok(found, `there is a package ${name}`)
  return found
}

const manifestOf = (name: string): { exports: Record<string, unknown>; [field: string]: unknown } =>
  JSON.parse(readFileSync(join(built, name, 'package.json'), 'utf8'))

/** Every module that a user may import. */
const specifiers = (): readonly string[] =>
  LIBRARIES.flatMap((name) =>
    Object.keys(manifestOf(name).exports)
      .filter((path) => path !== './package.json')
      .map((path) => `@breakfall/${name}${path.slice(1)}`),
  )

test('the packages have the promised names, one version, and manifests that say what they need', () => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  assert.deepEqual(packed.map(({ name }) => name).toSorted(), [
    ...LIBRARIES.map((name) => `@breakfall/${name}`),
    'breakfall',
  ])
  for (const name of ['breakfall', ...LIBRARIES]) {
    const { exports, ...manifest } = manifestOf(name)
    assert.equal(manifest['version'], version)
    assert.equal(manifest['private'], undefined)
    assert.equal(manifest['license'], 'Apache-2.0')
    assert.deepEqual(manifest['engines'], { node: name === 'breakfall' ? '>=24.12' : '>=22.19' })
    if (name === 'breakfall') continue
    assert.equal(manifest['sideEffects'], false)
    for (const [path, target] of Object.entries(exports))
      if (path !== './package.json')
        assert.deepEqual(Object.keys(target ?? {}), ['types', 'default'], `${name} ${path}`)
  }
})

test('a package contains its code, declarations, source maps, README and licence, and nothing else', () => {
  for (const name of LIBRARIES) {
    const others = packageOf(`@breakfall/${name}`)
      .files.map(({ path }) => path)
      .filter((path) => !/^lib\/[\w/-]+(?:\.js|\.js\.map|\.d\.ts|\.mjs|\.sh|\.py)$/.test(path))
    assert.deepEqual(others.toSorted(), ['LICENSE', 'README.md', 'package.json'], name)
    const code = packageOf(`@breakfall/${name}`).files.filter(({ path }) => path.endsWith('.js')).length
    const maps = packageOf(`@breakfall/${name}`).files.filter(({ path }) => path.endsWith('.js.map')).length
    assert.equal(maps, code, `${name}: a source map for each file`)
  }
  const command = packageOf('breakfall').files.map(({ path }) => path)
  const others = command.filter(
    (path) => !/^(?:(?:cli|daemon|engine)\/[\w/-]+\.js(?:\.map)?|docs\/faults\/\w+\.md|console\/.+)$/.test(path),
  )
  assert.deepEqual(others.toSorted(), ['LICENSE', 'README.md', 'bin/breakfall.mjs', 'package.json'])
  const pages = (folder: string): readonly string[] => readdirSync(folder).toSorted()
  assert.deepEqual(pages(join(built, 'breakfall/docs/faults')), pages(join(root, 'docs/faults')))
})

test('a README leads only to files of its package, and names pages of the repository that exist', () => {
  for (const name of ['breakfall', ...LIBRARIES]) {
    const text = readFileSync(join(built, name, 'README.md'), 'utf8')
    const links = Array.from(text.matchAll(/\]\(([^)\s]+)\)/g), ([, target = '']) => target)
    assert.deepEqual(
      links.filter((target) => !/^(?:https:|#)/.test(target)),
      [],
      name,
    )
    const pages = Array.from(text.matchAll(/`([^`\n]+)` in Breakfall's repository/g), ([, page = '']) => page)
    assert.ok(pages.length > 0, `${name}: it says where to read more`)
    for (const page of pages) assert.ok(existsSync(join(root, page)), `${name}: ${page}`)
  }
})

test('breakfall is smaller than 3 MB packed, and @breakfall/model smaller than 260 kB', () => {
  assert.ok(packageOf('breakfall').size <= 3_000_000, `${packageOf('breakfall').size}`)
  assert.ok(packageOf('@breakfall/model').size <= 260_000, `${packageOf('@breakfall/model').size}`)
})

test('nothing in the packages refers to a TypeScript file, a private package or the checkout', () => {
  for (const file of globSync('*/**/*.{js,d.ts}', { cwd: built })) {
    const code = readFileSync(join(built, file), 'utf8')
    assert.doesNotMatch(code, /(?:from|import\()\s*['"]\.{1,2}\/[^'"\n]*\.ts['"]/, file)
    assert.doesNotMatch(code, /(?:from|import\()\s*['"]@breakfall\/(?:cli|daemon|engine|console)\b/, file)
    assert.ok(!code.includes(root), file)
  }
})

/** None of them changes the project, so two run at a time. */
describe('installed', { concurrency: 2 }, () => {
  test('npm accepts @breakfall/model beside the OpenTelemetry SDKs 2.x and 3.x, and refuses an API that it does not know', async () => {
    const { name = '', version = '', peerDependencies = {} } = installedManifest('@opentelemetry/sdk-trace')
    const old = { name: '@opentelemetry/sdk-trace-node', version: '2.12.0', peers: { [API]: '>=1.0.0 <1.10.0' } }
    const recent = { name, version, peers: peerDependencies }
    const [withOld, withRecent, ...refused] = await Promise.all([
      apiProblems('1.9.0', old), // O2
      apiProblems(installedManifest(API).version ?? '', recent),
      apiProblems('1.10.0', old), // npm would find a wrong pair
      apiProblems('1.8.0'),
      apiProblems('2.0.0'),
    ])
    assert.deepEqual([withOld, withRecent], [[], []])
    assert.deepEqual(
      refused.map((problems) => problems.length),
      [1, 1, 1],
    )
  })

  test('ES modules import every entry point, and CommonJS requires it, on Node 24 and on the oldest supported Node', async (t) => {
    const imports = specifiers().map((name, at) => `import * as m${at} from '${name}'`)
    const requires = specifiers().map((name) => `require('${name}')`)
    writeFileSync(join(project, 'imports.mjs'), imports.join('\n'))
    writeFileSync(join(project, 'requires.cjs'), requires.join('\n'))
    const starts = nodes(t).flatMap((node) => ['imports.mjs', 'requires.cjs'].map((file) => [node, file] as const))
    await Promise.all(starts.map(([node, file]) => succeeds(node, [file], project)))
  })

  test('the README of every library has an example, and each runs on Node 24 and on the oldest supported Node, as does the how-to of the client', async (t) => {
    assert.equal(howTo.trimEnd().split('\n').length, 20, 'twenty lines')
    for (const name of LIBRARIES)
      assert.ok(examples.has(`example-${name}-0.ts`), `packages/${name}/README.md has an example`)
    const model = await startScriptedModel()
    t.after(() => model.close())
    model.script('any', [say('Hello.'), say('Hello.'), say('Hello.'), say('Hello.')])
    await using home = new Place({}, launcher)
    const up = ['up', '--json', '--port', '0', '--allow-workspace', project, ...isolation]
    await using daemon = home.start(up, modelAt(model.url))
    const { url, tokenFile } = await daemon.listening()
    writeFileSync(join(project, 'how-to.mjs'), howTo.replace('http://127.0.0.1:7878', String(url)))
    const state = join(place, 'xdg')
    mkdirSync(join(state, 'breakfall'), { recursive: true })
    copyFileSync(String(tokenFile), join(state, 'breakfall/daemon.token'))
    const names = [...examples.keys(), 'how-to.mjs']
    // One after the other in one process: a Node that starts for each would take most of the time.
    const lines = names.map((name) => `console.log('== ${name}')\nawait import('./${name}')`)
    writeFileSync(join(project, 'examples.mjs'), lines.join('\n'))
    const runs = nodes(t).map(async (node) => {
      await using program = new Program(node, ['examples.mjs', String(url), String(tokenFile)], {
        cwd: project,
        env: { ...process.env, XDG_STATE_HOME: state },
      })
      const { code, lines: printed, stderr } = await program.ended
      assert.equal(code, 0, `${printed.findLast((line) => line.startsWith('== '))} on ${node}: ${stderr}`)
      const silent = names.filter((name) => printed[printed.indexOf(`== ${name}`) + 1]?.startsWith('== ') !== false)
      assert.deepEqual(silent, [], 'each prints something')
    })
    await Promise.all(runs)
  })

  test('the types are right with bundler and with nodenext resolution, strict and without skipLibCheck', async () => {
    writeFileSync(
      join(project, 'all.ts'),
      specifiers()
        .map((name, at) => `export * as m${at} from '${name}'`)
        .join('\n'),
    )
    const common = {
      strict: true,
      skipLibCheck: false,
      noEmit: true,
      target: 'es2024',
      types: ['node'],
      exactOptionalPropertyTypes: true,
    }
    for (const [module, moduleResolution] of [
      ['nodenext', 'nodenext'],
      ['esnext', 'bundler'],
    ]) {
      const config = {
        compilerOptions: { ...common, module, moduleResolution },
        files: ['all.ts', ...examples.keys()],
      }
      writeFileSync(join(project, `tsconfig.${moduleResolution}.json`), JSON.stringify(config))
      await succeeds(
        join(root, 'node_modules/.bin/tsc'),
        ['--singleThreaded', '-p', `tsconfig.${moduleResolution}.json`],
        project,
      )
    }
  })

  test('up answers and demo shows its page until SIGTERM ends them', async () => {
    await using home = new Place({}, launcher)
    await using daemon = home.start(['up', '--json', '--port', '0', ...isolation])
    await using demo = home.start(['demo', '--print', '--json', ...isolation], { TMPDIR: home.home })
    const health = await fetch(`${String((await daemon.listening())['url'])}/v1/health`)
    assert.equal(health.status, 200, await health.text())
    await demo.listening()
    const shown = await demo.seen(({ event }) => event === 'console')
    const page = await fetch(String(shown['url']))
    assert.equal(page.status, 200)
    assert.match(await page.text(), /<!doctype html>/i)
    for (const program of [daemon, demo]) {
      const { code, signal, stderr } = await program.stop()
      assert.deepEqual({ code, signal }, { code: 0, signal: null }, stderr)
    }
  })

  test('run --rehearsal, gateway and explain work from packed files', async (t) => {
    const model = await startScriptedModel()
    t.after(() => model.close())
    model.script('relayed', [say('Through.')])
    await using home = new Place({}, launcher)
    const rehearsal = await home.start(['run', '--rehearsal', '--json', ...isolation]).ended
    assert.equal(rehearsal.code, 0, `${rehearsal.stderr}${rehearsal.lines.at(-1)}`)
    await using gateway = home.start(['gateway', '--upstream', model.url, '--port', '0', '--json'])
    const served = await gateway.listening()
    const question = { model: 'relayed', stream: true, messages: [{ role: 'user', content: 'hi' }] }
    const relayed = await fetch(`${String(served['url'])}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(question),
    })
    assert.match(await relayed.text(), /Through\./)
    await gateway.stop()
    const explained = await home.start(['explain', '--json', 'read ECONNRESET']).ended
    assert.equal(explained.code, 0, explained.stderr)
  })
})

test('breakfall runs a turn, keeps the session over an upgrade, and removes its state by npx', async (t) => {
  const model = await startScriptedModel()
  t.after(() => model.close())
  model.script('any', [say('First.'), say('Second.')])
  const env = modelAt(model.url)
  await using home = new Place({}, launcher)

  const first = await home.start(['run', 'say something', '--json', ...isolation], env).ended
  assert.equal(first.code, 0, first.stderr)

  for (const file of globSync('*/package.json', { cwd: built })) {
    const text = readFileSync(join(built, file), 'utf8')
    writeFileSync(join(built, file), text.replaceAll('"0.1.0"', '"0.1.1"'))
  }
  const later = join(place, 'later')
  install(project, later, pack(built, later))
  assert.deepEqual((await home.start(['--version']).ended).lines, ['0.1.1'])
  const second = await home.start(['run', '--continue', 'and more', '--json', ...isolation], env).ended
  assert.equal(second.code, 0, second.stderr)
  assert.equal(second.json.at(-1)?.['text'], 'Second.')
  const sessions = (await home.start(['sessions', '--json']).ended).json.filter((line) => 'id' in line)
  assert.equal(sessions.length, 1, 'the second turn continued the first session')

  const refused = await home.start(['uninstall', '--state-dir', home.stateDir]).ended
  assert.equal(refused.code, 2, refused.stderr)
  assert.equal(existsSync(home.stateDir), true)
  npm(['uninstall', '--no-audit', '--no-fund', '--loglevel=error', ...packed.map(({ name }) => name)], project)
  assert.equal(existsSync(launcher), false)
  assert.deepEqual(
    globSync('**', { cwd: home.home }).filter((path) => path !== '.' && !path.startsWith('state')),
    ['work'],
    'uninstalling leaves only the state folder',
  )
  // What is left is removed by a command that is not installed, and without the optional dependencies.
  const removed = withNpx(['uninstall', '--state-dir', home.stateDir, '--yes'])
  if (removed === undefined) return t.skip('no registry')
  assert.equal(removed.status, 0, removed.stderr)
  assert.equal(existsSync(home.stateDir), false)
})

// ---- details ----

const API = '@opentelemetry/api'

type Manifest = { name?: string; version?: string; peerDependencies?: Record<string, string> }
const installedManifest = (name: string): Manifest =>
  JSON.parse(readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8'))

/** What npm says about a project with this version of OpenTelemetry's API, our model client and perhaps an SDK. Needs no network. */
async function apiProblems(
  version: string,
  sdk?: { name: string; version: string; peers: object },
): Promise<readonly string[]> {
  const folder = mkdtempSync(join(place, 'peers-'))
  const { name, peerDependencies, peerDependenciesMeta } = manifestOf('model')
  const manifests = [
    { name: API, version },
    { name: String(name), version: '0.1.0', peerDependencies, peerDependenciesMeta },
    ...(sdk === undefined ? [] : [{ name: sdk.name, version: sdk.version, peerDependencies: sdk.peers }]),
  ]
  for (const manifest of manifests) {
    const at = join(folder, 'node_modules', manifest.name)
    mkdirSync(at, { recursive: true })
    writeFileSync(join(at, 'package.json'), JSON.stringify(manifest))
  }
  const dependencies = Object.fromEntries(manifests.map((manifest) => [manifest.name, '*']))
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies }))
  const env = { ...process.env, npm_config_workspace: '' }
  const listing = promisify(execFile)('npm', ['ls', '--all', '--json'], { cwd: folder, env })
  const { stdout } = await listing.catch((error: { stdout: string }) => error) // npm fails if it finds problems
  assert.match(stdout, /"dependencies"/)
  const listed: { problems?: readonly string[] } = JSON.parse(stdout)
  return listed.problems ?? []
}

const modelAt = (url: string): Record<string, string> => ({
  BREAKFALL_MODEL_BASE_URL: url,
  BREAKFALL_MODEL_NAME: 'any',
  BREAKFALL_MODEL_API_KEY_ENV: 'SOME_KEY',
  SOME_KEY: 'sk-test',
})

/** The command by `npx --package`, from packed files alone. Undefined if npm's cache lacks something and no registry answers. */
function withNpx(command: readonly string[]): { status: number | null; stderr: string } | undefined {
  const cache = join(place, 'npx')
  const folder = join(place, 'elsewhere')
  if (!existsSync(cache)) {
    mkdirSync(cache)
    mkdirSync(folder)
    symlinkSync(join(npm(['config', 'get', 'cache'], place).trim(), '_cacache'), join(cache, '_cacache'))
  }
  const flags = packed.flatMap(({ filename }) => ['--package', join(files, filename)])
  const args = ['exec', '--yes', '--prefer-offline', '--omit=optional', ...flags, '--', 'breakfall', ...command]
  const done = spawnSync('npm', args, {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, npm_config_workspace: '', npm_config_cache: cache },
  })
  return /ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ENOTCACHED/.test(done.stderr) ? undefined : done
}

function nodes(t: { diagnostic(message: string): void }): readonly string[] {
  const old = oldNode()
  if (old === undefined) t.diagnostic('the oldest supported Node could not be downloaded: only this Node was tried')
  return old === undefined ? [process.execPath] : [process.execPath, old]
}
