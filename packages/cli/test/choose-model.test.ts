import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { EXAMPLE_CONFIG, modelLines, writeExample } from '../src/commands/config.ts'
import type { LoadedConfig } from '../src/config/load.ts'
import { chooseModel, listModels, localServers } from '../src/model/choose.ts'

const nothingSet: LoadedConfig = { config: {}, origins: new Map(), warnings: [], files: [] }
const nobody = (): Promise<undefined> => Promise.resolve(undefined)
const urls = (env: Record<string, string>): readonly string[] => localServers(env).map(({ baseUrl }) => baseUrl)

test('local servers are looked for on their usual ports, or where their own variables say', () => {
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

/** A server that lists a model, and says of itself what it is given to say. */
async function server(t: TestContext, says: { root?: string; ownedBy?: string; head?: string }): Promise<number> {
  const listening = createServer((req, res) => {
    if (says.head !== undefined) res.setHeader('server', says.head)
    if (req.url === '/') return void res.end(says.root ?? '<html>')
    res.end(JSON.stringify({ data: [{ id: 'm', owned_by: says.ownedBy ?? 'me' }] }))
  }).listen(0, '127.0.0.1')
  await once(listening, 'listening')
  t.after(() => listening.close())
  return (listening.address() as AddressInfo).port
}

for (const [name, what, says, profile, because] of [
  [
    'llama-server',
    'says nothing of itself',
    {},
    undefined,
    /^an OpenAI-compatible server answers at 127\.0\.0\.1:\d+$/,
  ],
  ['llama-server', 'has its head line', { head: 'llama.cpp' }, 'llama-cpp', /^llama-server answers where its/],
  ['llama-server', 'lists a model of its own', { ownedBy: 'llamacpp' }, 'llama-cpp', /^llama-server answers where its/],
  ['Ollama', 'says so', { root: 'Ollama is running' }, 'ollama', /^Ollama answers where its/],
  ['Ollama', 'says nothing of itself', {}, undefined, /^an OpenAI-compatible server answers at/],
] as const)
  test(`what answers in the place of ${name} is it where it ${what}: ${profile !== undefined}`, async (t) => {
    const places = { OLLAMA_HOST: '127.0.0.1:1', LLAMA_ARG_HOST: '127.0.0.1', LLAMA_ARG_PORT: '1' }
    const port = await server(t, says)
    const here = name === 'Ollama' ? { OLLAMA_HOST: `127.0.0.1:${port}` } : { LLAMA_ARG_PORT: `${port}` }
    const choice = await chooseModel(nothingSet, { ...places, ...here }, listModels)
    assert.ok(choice !== undefined)
    assert.deepEqual([choice.name, choice.profile], ['m', profile])
    assert.match(choice.because, because)
  })

test('config show says which model a run would use and why, and nothing of a key but its end', async () => {
  const lines = async (env: Record<string, string>): Promise<string> =>
    modelLines(await chooseModel(nothingSet, env, nobody)).join('\n')
  assert.match(await lines({}), /no model: none is set, and none answers/)
  const openai = await lines({ OPENAI_API_KEY: 'sk-0123456789abcdefghijklmn' })
  assert.match(
    openai,
    /the model gpt-5 at https:\/\/api\.openai\.com\/v1: OPENAI_API_KEY is set\n.*OPENAI_API_KEY: …klmn$/,
  )
  assert.match(
    await lines({ ANTHROPIC_API_KEY: 'short' }),
    /claude-sonnet-5 .*\nwith the key from ANTHROPIC_API_KEY: …$/,
  )
  const url = await lines({ OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' })
  assert.match(
    url,
    /the first model that is listed at http:\/\/127\.0\.0\.1:9\/v1: OPENAI_BASE_URL is set\nwithout a key/,
  )
})

test('the example is written where there is no config yet, and never over one', () => {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall config '))
  try {
    const file = join(folder, 'breakfall', 'config.toml')
    writeExample(file)
    assert.equal(readFileSync(file, 'utf8'), EXAMPLE_CONFIG)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    assert.throws(() => writeExample(file), { category: 'invalid_request', error: /nothing was written.*one already/ })
    assert.throws(() => writeExample(join(file, 'x')), { error: /nothing was written.*cannot be written/ })
    assert.ok(existsSync(file))
  } finally {
    rmSync(folder, { recursive: true })
  }
})
