import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { modelLines } from '../src/commands/config/config.ts'
import { EXAMPLE_CONFIG, writeExample } from '../src/commands/config/example.ts'
import type { LoadedConfig } from '../src/config/load.ts'
import { localServers, resolveModel } from '../src/config/model.ts'
import { configuredProviders } from '../src/config/providers.ts'
import { resolveRunner, runnerWarnings } from '../src/config/runner.ts'
import { chooseModel, type ModelChoice } from '../src/model/choose.ts'
import { listModels } from '../src/model/list.ts'

const nothingSet: LoadedConfig = { config: {}, origins: new Map(), warnings: [], files: [] }
const chosen = (loaded: LoadedConfig, env: Record<string, string>): Promise<ModelChoice> =>
  chooseModel(resolveModel(loaded, configuredProviders(loaded, env, {}), env), () => Promise.resolve(undefined))
const urls = (env: Record<string, string>): readonly string[] => localServers(env).map(({ baseUrl }) => baseUrl)

test('local servers are expected on their default ports, or where their own variables say', () => {
  assert.deepEqual(urls({}), ['http://127.0.0.1:11434/v1', 'http://127.0.0.1:8080/v1'])
  for (const [host, url] of [
    ['0.0.0.0', 'http://127.0.0.1:11434/v1'],
    ['box:9000', 'http://box:9000/v1'],
    [':9000', 'http://127.0.0.1:9000/v1'],
    ['https://box/', 'https://box:11434/v1'],
    ['not an address at all', 'http://127.0.0.1:11434/v1'],
  ] as const)
    assert.equal(urls({ OLLAMA_HOST: host })[0], url, host)
  assert.equal(urls({ LLAMA_ARG_PORT: '9001' })[1], 'http://127.0.0.1:9001/v1')
  assert.equal(urls({ LLAMA_ARG_HOST: 'box' })[1], 'http://box:8080/v1')
})

/** A server that lists a model, and identifies itself as given. */
async function server(t: TestContext, says: { root?: string; ownedBy?: string; head?: string }): Promise<number> {
  const listening = createServer((req, res) => {
    if (says.head !== undefined) res.setHeader('server', says.head)
    if (req.url === '/') return void res.end(says.root ?? '<html>')
    res.end(JSON.stringify({ data: [{ id: 'm', owned_by: says.ownedBy ?? 'me' }] }))
  }).listen(0, '127.0.0.1')
  await once(listening, 'listening')
  t.after(() => listening.close())
  const address = listening.address()
  assert.ok(typeof address === 'object' && address !== null)
  return address.port
}

for (const [name, what, says, profile, because] of [
  [
    'llama-server',
    'does not identify itself',
    {},
    undefined,
    /^an OpenAI-compatible server answers at 127\.0\.0\.1:\d+$/,
  ],
  [
    'llama-server',
    'sends its server header',
    { head: 'llama.cpp' },
    'llama-cpp',
    /^llama-server answers at the address in its/,
  ],
  [
    'llama-server',
    'lists a model that it owns',
    { ownedBy: 'llamacpp' },
    'llama-cpp',
    /^llama-server answers at the address in its/,
  ],
  ['Ollama', 'says so', { root: 'Ollama is running' }, 'ollama', /^Ollama answers at the address in its/],
  ['Ollama', 'does not identify itself', {}, undefined, /^an OpenAI-compatible server answers at/],
] as const)
  test(`a server at the address of ${name} that ${what} ${profile === undefined ? 'is not taken for it' : 'is recognised'}`, async (t) => {
    const places = { OLLAMA_HOST: '127.0.0.1:1', LLAMA_ARG_HOST: '127.0.0.1', LLAMA_ARG_PORT: '1' }
    const port = await server(t, says)
    const here = name === 'Ollama' ? { OLLAMA_HOST: `127.0.0.1:${port}` } : { LLAMA_ARG_PORT: `${port}` }
    const choice = await chooseModel(resolveModel(nothingSet, [], { ...places, ...here }), listModels)
    assert.ok(choice.kind === 'discovered')
    assert.deepEqual([choice.name, choice.profile], ['m', profile])
    assert.match(choice.origin, because)
  })

test('config show names the model that a run would use and why, and only the end of its key', async () => {
  const lines = async (env: Record<string, string>): Promise<string> =>
    modelLines(await chosen(nothingSet, env), nothingSet).join('\n')
  assert.match(await lines({}), /no model: none is set, and none answers/)
  const openai = await lines({ OPENAI_API_KEY: 'sk-0123456789abcdefghijklmn' })
  assert.match(
    openai,
    /use gpt-5 at https:\/\/api\.openai\.com\/v1 \(OPENAI_API_KEY is set\)\n.*OPENAI_API_KEY: …klmn$/,
  )
  assert.match(
    await lines({ ANTHROPIC_API_KEY: 'short' }),
    /claude-sonnet-5 .*\nwith the key from ANTHROPIC_API_KEY: …$/,
  )
  const url = await lines({ OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' })
  assert.match(url, /the first model listed at http:\/\/127\.0\.0\.1:9\/v1 \(OPENAI_BASE_URL is set\)\nwithout a key/)
})

test('the example is written if there is no config file yet, and never over one', () => {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall config '))
  try {
    const file = join(folder, 'breakfall', 'config.toml')
    writeExample(file)
    assert.equal(readFileSync(file, 'utf8'), EXAMPLE_CONFIG)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    assert.throws(() => writeExample(file), {
      category: 'invalid_request',
      error: /Cannot write .*the file exists; nothing was changed/,
    })
    assert.throws(() => writeExample(join(file, 'x')), { error: /Cannot write .*not a folder/ })
    assert.ok(existsSync(file))
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('the model is resolved once: flag or variable, then a server to start, then a file, then the usual variables', async () => {
  const serve = { command: ['llama-server', '--port', '{port}'] }
  const baseUrl = 'http://127.0.0.1:9/v1'
  const loaded = (model: LoadedConfig['config']['model'], origin: string): LoadedConfig => ({
    ...nothingSet,
    config: { model },
    origins: new Map([['model.baseUrl', origin]]),
  })
  const kind = async (model: LoadedConfig['config']['model'], origin: string): Promise<string> =>
    (await chosen(loaded(model, origin), { OPENAI_API_KEY: 'sk' })).kind
  assert.equal(await kind({ serve, baseUrl }, 'environment BREAKFALL_MODEL_BASE_URL'), 'remote', 'as for a rehearsal')
  assert.equal(await kind({ serve, baseUrl }, '/config.toml:2'), 'served')
  assert.equal(await kind({ serve }, ''), 'served', 'a key set for other programs does not replace it')
  const file = await chosen(loaded({ baseUrl, name: 'm' }, '/config.toml:2'), { OPENAI_API_KEY: 'sk' })
  assert.ok(file.kind === 'remote')
  assert.deepEqual([file.baseUrl, file.origin, file.isFromFile], [baseUrl, '/config.toml:2', true])
  const key = await chosen(nothingSet, { OPENAI_API_KEY: 'sk', ANTHROPIC_BASE_URL: baseUrl, ANTHROPIC_API_KEY: 'sk' })
  assert.ok(key.kind === 'remote')
  assert.deepEqual([key.profile, key.isFromFile], ['openai', false])
})

test('the runner is remote if a URL or a resolver is set, by either name, and local otherwise', () => {
  assert.equal(resolveRunner({}).kind, 'local')
  assert.equal(resolveRunner({ runner: { isolation: 'process', tokenFile: '/t' } }).kind, 'local')
  const remote = { runner: { tokenFile: '/no/such/file' }, remote_runner: { endpoint: 'http://127.0.0.1:1' } }
  assert.deepEqual(runnerWarnings(resolveRunner(remote)).length, 1)
  for (const runner of [{ url: 'http://x' }, { resolveUrl: 'http://x' }, { resolveCommand: ['x'] }])
    assert.equal(resolveRunner({ runner }).kind, 'remote')
})
