/**
 * `Dockerfile`, `compose.yaml` and `deploy/kubernetes.yaml`, checked as files because no container engine runs here: what they name
 * exists, and the parts fit together.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { buildProgram } from '../packages/cli/src/commands/index.ts'
import { variables } from '../packages/cli/src/config/schema.ts'
import { root } from './sources.ts'

const file = (name: string): string => readFileSync(join(root, name), 'utf8')
const dockerfile = file('Dockerfile').replaceAll('\\\n', ' ')
const instructions = Array.from(dockerfile.matchAll(/^([A-Z]+) (.+)$/gm), ([, name = '', rest = '']) => ({
  name,
  rest,
}))
const argumentsOf = (name: string): readonly string[] =>
  instructions.filter((one) => one.name === name).map(({ rest }) => rest)
const lastStage = instructions.slice(instructions.findLastIndex(({ name }) => name === 'FROM'))

const compose = file('compose.yaml')
const kubernetes = file('deploy/kubernetes.yaml')
const composeServices = Array.from(
  compose.slice(compose.indexOf('services:\n')).matchAll(/^ {2}([\w-]+):.*\n((?: {4}.*\n|\n)+)/gm),
  ([, name = '', text = '']) => ({ name, text }),
)

/** Lists as in JSON, with single or double quotes. */
const lists = (text: string, key: string): readonly (readonly string[])[] =>
  Array.from(text.matchAll(new RegExp(`^\\s*${key}:?\\s+(\\[[^\\]]*\\])$`, 'gm')), ([, list = '']) =>
    Array.from(list.matchAll(/'((?:[^']|'')*)'|"((?:[^"\\]|\\.)*)"/g), ([, single, double]) => single ?? double ?? ''),
  )

const commands = [
  ...lists(dockerfile, 'CMD').filter(([first]) => first === 'up'),
  ...lists(compose, 'command'),
  ...lists(kubernetes, 'args'),
]

test('every command and flag in them exists, and flags with a value take one', () => {
  assert.ok(commands.length >= 5)
  const program = buildProgram(() => undefined)
  for (const [name = '', ...words] of commands) {
    const command = program.commands.find((one) => one.name() === name)
    assert.ok(command, name)
    for (const [at, word] of words.entries()) {
      if (!word.startsWith('--')) continue
      const option: { required: boolean } | undefined = command.options.find(({ long }) => long === word)
      assert.ok(option, `${name} ${word}`)
      const next = words[at + 1]
      assert.equal(next !== undefined && !next.startsWith('--'), option.required, `${name} ${word} ${next}`)
    }
  }
})

test('the configuration knows every Breakfall variable in them', () => {
  const known = variables()
  const used = [dockerfile, compose, kubernetes, file('docs/how-to/run-in-containers.md')].flatMap((text) =>
    Array.from(text.matchAll(/\bBREAKFALL_[A-Z_]+/g), ([name]) => name),
  )
  assert.ok(used.length > 5)
  assert.deepEqual(
    [...new Set(used)].filter((name) => !known.has(name)),
    [],
  )
})

test('the image has stages that exist, a user that is not root, bubblewrap, a volume and a health check on its port', () => {
  const stages = argumentsOf('FROM').flatMap((rest) => / AS (\w+)$/.exec(rest)?.[1] ?? [])
  assert.ok(argumentsOf('FROM').length >= 2, 'it is built in stages')
  for (const rest of argumentsOf('COPY')) {
    const from = /^--from=(\w+)/.exec(rest)?.[1]
    if (from !== undefined) assert.ok(stages.includes(from), rest)
  }
  for (const image of argumentsOf('FROM')) assert.match(image, /^node:24-/, 'the command needs Node 24')
  const last = (name: string): string => lastStage.find((one) => one.name === name)?.rest ?? ''
  assert.match(last('RUN'), /install .*\bbubblewrap\b/)
  assert.match(last('USER'), /^(?!root|0$)\w+$/)
  assert.equal(last('VOLUME'), '/state')
  assert.match(last('ENV'), /BREAKFALL_DAEMON_STATE_DIR=\/state/)
  const [port] = argumentsOf('EXPOSE')
  assert.match(last('HEALTHCHECK'), new RegExp(`127\\.0\\.0\\.1:${port}/v1/health`))
  assert.match(last('CMD'), new RegExp(`"--port", "${port}"`))
  // The folder that the build wrote: `packages/*/dist` has the built page of the console as well, which is no package.
  assert.match(
    argumentsOf('RUN')[0] ?? '',
    /^npm run build -- --out (\S+) && .*npm pack --pack-destination \S+ \1\/\*$/,
  )
  const ignored = file('.dockerignore').split('\n')
  for (const needed of ['packages', 'scripts', 'docs', 'package.json', 'LICENSE', 'tsconfig.build.json']) {
    assert.ok(existsSync(join(root, needed)), needed)
    assert.ok(!ignored.includes(needed), `${needed} is needed to build`)
  }
})

test('compose has PostgreSQL, two daemons, a runner and a gateway, and their volumes, ports and addresses fit', () => {
  const names = composeServices.map(({ name }) => name)
  for (const name of ['postgres', 'daemon-1', 'daemon-2', 'runner', 'gateway']) assert.ok(names.includes(name), name)
  const declared = Array.from(
    compose.slice(compose.indexOf('\nvolumes:')).matchAll(/^ {2}([\w-]+):$/gm),
    ([, name]) => name,
  )
  for (const { name, text } of composeServices) {
    for (const [, volume = ''] of text.matchAll(/'([\w-]+):\/[\w/-]+'/g)) assert.ok(declared.includes(volume), volume)
    const [command = []] = lists(text, 'command')
    const port = command[command.indexOf('--port') + 1]
    for (const [, inner] of text.matchAll(/'127\.0\.0\.1:\d+:(\d+)'/g))
      assert.equal(inner, name === 'daemon-2' ? '7878' : port, `${name} publishes the port it listens on`)
    for (const [, inner] of text.matchAll(/http:\/\/127\.0\.0\.1:(\d+)/g))
      assert.equal(inner, port, `health of ${name}`)
    for (const [, other] of text.matchAll(/^ {6}([\w-]+): \{ condition/gm))
      assert.ok(names.includes(other ?? ''), other)
  }
  const runner = composeServices.find(({ name }) => name === 'runner')?.text ?? ''
  assert.match(compose, /http:\/\/runner:7411/)
  assert.match(runner, /'--port',\s+'7411'[\s\S]*'--allow-host',\s+'runner'/)
  assert.match(runner, /seccomp:unconfined/)
})

test('Kubernetes has probes that the daemon answers, a drain shorter than the grace, and a disruption budget', () => {
  const [port] = argumentsOf('EXPOSE')
  for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
    const [, path, to] =
      new RegExp(`${probe}:\\s+httpGet: \\{ path: (\\S+), port: (\\d+), .*Host, value: localhost`).exec(kubernetes) ??
      []
    assert.equal(path, probe === 'readinessProbe' ? '/v1/ready' : '/v1/health')
    assert.equal(to, port)
  }
  const grace = Number(/terminationGracePeriodSeconds: (\d+)/.exec(kubernetes)?.[1])
  const drainMs = Number(/'--drain-ms',\s+'(\d+)'/.exec(kubernetes)?.[1])
  assert.ok(drainMs > 0 && drainMs < grace * 1000)
  assert.match(kubernetes, /kind: PodDisruptionBudget[\s\S]*maxUnavailable: 1/)
  assert.match(kubernetes, /runAsNonRoot: true/)
})

test('the pages say that nothing of this was run', () => {
  assert.match(file('docs/how-to/run-in-containers.md'), /\*\*They have never been run\.\*\*/)
  assert.match(file('docs/how-to/run-in-kubernetes.md'), /\*\*It has never been applied to a cluster\*\*/)
})
